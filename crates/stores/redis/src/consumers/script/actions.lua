-- The actions on counters, as in tollway-core. There is no queue here, and there are no slots.

local actions = {}

-- A meter: its counter, whose it is, what it allows, what is taken from it, and what a settle makes of that.
local COUNTER, CHARGE, LIMIT, ALLOWED, AMOUNT, ACTUAL = 1, 2, 3, 4, 5, 6

-- What every limit shows now: used, resets_at, as_of of each. A window that begins now has its whole period left, as the
-- key's TTL says, and not also what the key lives on in its last millisecond.
local function read_all(operation)
  local readings, n = {}, 0
  for _, meter in ipairs(operation.meters) do
    local counter = counters[meter[COUNTER]]
    readings[n + 1] = counter.count
    readings[n + 2] = counter.last and max(counter.last * 1000, now) or now
    readings[n + 3] = now
    n = n + 3
  end
  return readings
end

local function readings(operation)
  return operation.readings and read_all(operation) or false
end

-- When every limit has room, and the one that has it last; none if all have it now.
local function search(meters)
  local at, denying = now, nil
  for _, meter in ipairs(meters) do
    local counter = counters[meter[COUNTER]]
    -- A key without expiry gets one also on a denial; otherwise it would deny for ever.
    counter.asked = true
    if meter[AMOUNT] > 0 and counter.count + meter[AMOUNT] > meter[ALLOWED] and ends(counter) > at then
      at, denying = ends(counter), meter
    end
  end
  return at, denying
end

local function decide(operation)
  for _, meter in ipairs(operation.meters) do
    if meter[AMOUNT] > meter[ALLOWED] then return { "refused", "above_limit", meter[CHARGE], meter[LIMIT] } end
  end
  local at, denying = search(operation.meters)
  if denying then return { "denied", now, at, denying[CHARGE], denying[LIMIT], readings(operation) } end
  local good_until = MAX
  for _, meter in ipairs(operation.meters) do
    if meter[AMOUNT] > 0 then
      local counter = counters[meter[COUNTER]]
      debit(counter, meter[AMOUNT])
      good_until = min(good_until, ends(counter))
    end
  end
  return { "granted", operation.permit, now, now, now, good_until, false, false, 0, readings(operation) }
end

-- Counts once if the caller gave it an id, which is remembered unless this is a preview.
local function take_once(operation, previewed)
  local id = operation.call
  if not id then return decide(operation) end
  local known = call_of(id)
  if known then
    local asked, permit, at, good_until = unpack(known)
    if asked ~= operation.asked then return { "refused", "id_reused" } end
    return { "granted", permit, at, now, at, good_until, true, false, 0, readings(operation) }
  end
  if not has_room_for_call() then return { "refused", "too_many_ids" } end
  local decision = decide(operation)
  if decision[1] == "granted" and not previewed then
    remember_call(id, operation.asked, operation.permit, decision[6])
  end
  return decision
end

function actions.take(operation)
  return take_once(operation, false)
end

function actions.preview(operation)
  local before = unpack_text(pack(counters))
  local decision = take_once(operation, true)
  counters = before
  return decision
end

-- Free while the permit is good; too late, it takes again, once however often it is repeated.
function actions.begin(operation)
  if now < operation.booking.at then return { "early", operation.booking.at - now } end
  if now < operation.booking.good_until then return { "now" } end
  local decision = take_once(operation, false)
  return decision[1] == "refused" and decision or { "again", decision }
end

-- Puts every counter right whose window is still the one it was booked in.
local function correct(operation)
  local booking, whole_of_it = operation.booking, true
  for _, meter in ipairs(operation.meters) do
    if meter[ACTUAL] ~= meter[AMOUNT] then
      local here = settle(counters[meter[COUNTER]], booking.at, meter[AMOUNT], meter[ACTUAL])
      whole_of_it = whole_of_it and here
    end
  end
  return { "settled", whole_of_it and "whole" or "partly" }
end

-- Whether a settle takes more than was reserved, and nothing less.
local function takes_more(operation)
  for _, meter in ipairs(operation.meters) do
    if meter[ACTUAL] < meter[AMOUNT] then return false end
  end
  return operation.verb == "settle"
end

-- What is known of this refund, if it may come twice and has.
local function known_refund(operation)
  if not operation.remember then return nil end
  -- A full server remembers no more refunds. More to pay counts nevertheless, and again if it is repeated.
  if is_full and takes_more(operation) then return nil end
  local longest = 0
  for _, meter in ipairs(operation.meters) do longest = max(longest, counters[meter[COUNTER]].period) end
  return remember_refund(operation.booking, longest)
end

function actions.settle(operation)
  local known = known_refund(operation)
  return known and { "settled", known } or correct(operation)
end

function actions.give_back(operation)
  local known = known_refund(operation)
  if known then return { "settled", known } end
  forget_call(operation.booking.permit)
  return correct(operation)
end

function actions.done()
  return { "done", false }
end

function actions.renew()
  return { "renewed", true }
end

function actions.peek(operation)
  return { "peeked", read_all(operation) }
end

function actions.reset(operation)
  for _, meter in ipairs(operation.meters) do clear(counters[meter[COUNTER]]) end
  return { "reset" }
end
