-- Calls that came together, one after the other: the counters of each are read once, its operations applied in order, and what
-- has changed is written in the end.
--
-- Each call has four arguments: how many of KEYS are its own, which follow those of the one before, its sequence, the
-- permits of its operations, and its request: see request.rs. Its first key is the writer's for its tag, the second and third
-- keep its ids and refunds, then come the counters, those that are to be forgotten, and in the end the shared ones if any
-- may be used. Answers for each its outcomes, packed; or a list of them and the numbers of its keys that held no count and were replaced; or an error.

local CHARGES_PER_TAKE_MAX = 16
local PERMIT_BYTES = 16

-- What is wrong with the charges, if anything is. Two of them have one counter only if they are the same.
local function refuse_charges(operation)
  if operation.parties > CHARGES_PER_TAKE_MAX then return { "refused", "party_count" } end
  local seen = {}
  for _, meter in ipairs(operation.meters) do
    if seen[meter[COUNTER]] then return { "refused", "same_party", meter[CHARGE] } end
    seen[meter[COUNTER]] = true
  end
end

-- Applies all operations: answers their outcomes, and whether anything has changed.
local function apply_all(request, values)
  read_counters(request.periods, values)
  local outcomes = {}
  for number, operation in ipairs(request.operations) do
    outcomes[number] = refuse_charges(operation) or actions[operation.verb](operation)
    if operation.counts_made then note_made(operation, outcomes[number], values) end
  end
  local changed = memory_changed
  for i, counter in ipairs(counters) do
    if write_counter(i, counter) then changed = true end
  end
  return outcomes, changed
end

-- Those that come together mostly ask for the same: it is unpacked once.
local unpacked, packed
local function request_of(permits, text)
  if text ~= packed then unpacked, packed = unpack_text(text), text end
  for number, operation in ipairs(unpacked.operations) do
    operation.permit = string.sub(permits, PERMIT_BYTES * (number - 1) + 1, PERMIT_BYTES * number)
  end
  return unpacked
end

local function answer_to(sequence, request)
  is_full = request.full
  local values = redis.call("MGET", keys[1], unpack(keys, KEYS_BEFORE + 1))
  -- A call that was applied before, and whose answer was lost, counts once; so does one that was overtaken on
  -- its way.
  if values[1] then
    local _, last = unpack_first(values[1])
    if last == sequence then return select(2, unpack_text(values[1])) end
    if last > sequence then return redis.error_reply("OVERTAKEN by a later call of the same writer") end
  elseif request.refunds_again then
    return redis.error_reply("LOST the answer to a correction: it may have been applied, and is not applied again")
  end
  if request.shared then share_counters(request, values) end
  local outcomes, changed
  if uses_fast_path(request) then
    local outcome, counted = take_fast(request, values)
    local operation = request.operations[1]
    if operation.counts_made and not values[VALUES_BEFORE + 1] then note_made(operation, outcome, values) end
    outcomes, changed = { outcome }, counted
  else
    outcomes, changed = apply_all(request, values)
  end
  local answer = pack(outcomes)
  if changed then
    for i = #request.periods + 1, #keys - KEYS_BEFORE - (request.shared or 0) do
      if values[VALUES_BEFORE + i] then redis.call("DEL", keys[KEYS_BEFORE + i]) end
    end
    -- A full server gets no new key for an answer: what is sent again then counts twice.
    if values[1] or not is_full then redis.call("SET", keys[1], pack(sequence, answer), "PX", request.answer_kept) end
  end
  return answer
end

-- What went wrong, as an error of the server's: those have a code in front, and older servers an @ before it. What else
-- stops a script is a stored value that it cannot read.
local function problem_of(problem)
  local said = type(problem) == "table" and problem.err or tostring(problem)
  if string.find(said, "^%u+ ") then return redis.error_reply(said) end
  return redis.error_reply((string.find(said, "^@") and "ERR " or "LINE ") .. said)
end

local answers, before = {}, 0
for number = 1, #ARGV / 4 do
  local count, sequence, permits, text = unpack(ARGV, 4 * number - 3, 4 * number)
  keys, counters, memory_changed = { unpack(KEYS, before + 1, before + count) }, {}, false
  replaced, shared_now = {}, {}
  IDS, REFUNDS, before = keys[2], keys[3], before + count
  local ok, answer = pcall(answer_to, tonumber(sequence), request_of(permits, text))
  if ok and replaced[1] then answer = { answer, unpack(replaced) } end
  answers[number] = ok and answer or problem_of(answer)
end
return answers
