-- Calls of one command, applied one after the other: each reads its accounts, applies its operations in order, and writes
-- the changes before the next call begins.
--
-- KEYS are the writer's keys for the tags of the calls, and accounts. ARGV[1] is the request: see request.rs. On a Cluster the
-- calls may be in several slots, and a command names keys of one: then ARGV[2] has all keys, and KEYS the first of them.
-- Answers for each call its outcomes, packed; or, with nothing changed, a time whose calendar windows must be sent as
-- well; or an error.

local request = unpack_text(ARGV[1])
local keys, in_slots = KEYS, ARGV[2]
if in_slots then keys = unpack_text(in_slots) end
local values = in_slots and {} or redis.call("MGET", unpack(keys))

local now = request.now
if not now then
  local time = redis.call("TIME")
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Nil in the common request. Else the keys of shared accounts follow those of the accounts, and are so many places away.
local shared, counted = request.shared, nil
is_full = request.full

-- Reads the keys of one call, which are in one slot. If that is not here, or on its way, nothing of the call is done.
local function read_keys_of(call)
  local places, names = { call.writer }, {}
  for _, operation in ipairs(call.operations) do
    for _, charge in ipairs(operation.parties) do
      places[#places + 1] = charge.line
      if shared then places[#places + 1] = charge.line + shared end
    end
  end
  for index, at in ipairs(places) do names[index] = keys[at] end
  local found = redis.call("MGET", unpack(names))
  for index, at in ipairs(places) do values[at] = found[index] end
end

-- A subject without an account uses a shared one if its call may not make any, if the server has no room for one, or if it
-- used the shared one before and that still counts: else it would have two limits. Answers what is wrong, if anything is.
local function share_accounts(call)
  for _, operation in ipairs(call.operations) do
    local seen = {}
    for _, charge in ipairs(operation.parties) do
      local at = charge.line
      if not values[at] and (is_full or call.shares or values[at + shared]) then
        if call.makes_no_shared and not values[at + shared] then
          return redis.error_reply("OOM no room for an account that subjects of one more policy would share")
        end
        charge.line = at + shared
        local key = keys[charge.line]
        if seen[key] then return redis.error_reply("SHARED two subjects of this take share an account") end
        seen[key] = true
      end
    end
  end
end

-- Says in a granted outcome how many accounts are made for its subjects.
local function note_made(operation, outcome)
  local made = 0
  counted = counted or {}
  for _, charge in ipairs(operation.parties) do
    local at = charge.line
    local is_shared = shared and at > #keys - shared
    if not (values[at] or is_shared or counted[at]) then counted[at], made = true, made + 1 end
  end
  local single = outcome[1] == "apart" and outcome[2][1] or outcome
  if single[1] == "granted" then
    single[11] = made
  elseif single[1] == "together" then
    single[7], single[8] = single[7] or false, made
  end
end

-- Applies the operations of a call: answers their outcomes, its accounts, and which of them have changed.
local function apply_all(call)
  local accounts, changed, outcomes = {}, {}, {}
  for number, operation in ipairs(call.operations) do
    local own, charges = {}, operation.parties
    for index, charge in ipairs(charges) do
      local at = charge.line
      charge.policy = request.policies[charge.policy]
      accounts[at] = accounts[at] or engine.account.read(values[at], charge.policy, now)
      own[index] = accounts[at]
    end
    local how = operation.permits and engine.equal_takes or engine.apply
    local outcome, has_changed = how.apply(operation, own, now)
    outcomes[number] = outcome
    if operation.counts_made and has_changed then note_made(operation, outcome) end
    for index, charge in ipairs(charges) do
      accounts[charge.line] = own[index]
      changed[charge.line] = changed[charge.line] or has_changed
    end
  end
  return outcomes, accounts, changed
end

local function write(at, account)
  -- Until it expires, rounded up, plus a grace period in case the clock is set back.
  local lifetime = math.ceil(since(account.expires, now) / 1000) + request.grace
  values[at] = engine.account.write(account)
  redis.call("SET", keys[at], values[at], "PX", lifetime)
end

-- Notes the answer of a call that has changed something, in case it is lost. A full server gets no new key for that: what
-- is sent again then counts twice.
local function keep_answer(call, answer)
  if is_full and not values[call.writer] then return answer end
  redis.call("SET", keys[call.writer], pack(call.sequence, answer), "PX", request.answer_kept)
  return answer
end

-- The common call: one operation on one account.
local function answer_to_one(call, operation, charge)
  local at = charge.line
  charge.policy = request.policies[charge.policy]
  local own = { engine.account.read(values[at], charge.policy, now) }
  local how = operation.permits and engine.equal_takes or engine.apply
  local outcome, has_changed = how.apply(operation, own, now)
  if operation.counts_made and has_changed and not values[at] then note_made(operation, outcome) end
  local answer = pack({ outcome })
  if not has_changed or own[1].expires == 0 then return answer end
  write(at, own[1])
  return keep_answer(call, answer)
end

local function answer_to(call)
  local sequence = call.sequence
  if in_slots then read_keys_of(call) end
  -- A call that was applied before, and whose answer was lost, counts once; so does one that was overtaken on
  -- its way.
  if values[call.writer] then
    local last, answer = unpack_text(values[call.writer])
    if last == sequence then return answer end
    if last > sequence then return redis.error_reply("OVERTAKEN by a later call of the same writer") end
  elseif call.refunds_again then
    return redis.error_reply("LOST the answer to a correction: it may have been applied, and is not applied again")
  end
  if shared then
    local problem = share_accounts(call)
    if problem then return problem end
  end
  local operation = call.operations[1]
  if #call.operations == 1 and #operation.parties == 1 then
    return answer_to_one(call, operation, operation.parties[1])
  end
  local outcomes, accounts, changed = apply_all(call)
  local answer, kept = pack(outcomes), false
  for at, has_changed in pairs(changed) do
    -- A shadow that would have denied a new subject has left nothing to keep.
    if has_changed and accounts[at].expires > 0 then
      write(at, accounts[at])
      kept = true
    end
  end
  return kept and keep_answer(call, answer) or answer
end

-- What went wrong, as an error of the server's: those have a code in front, and older servers an @ before it. What else
-- stops a script is a stored value that it cannot read.
local function problem_of(problem)
  local said = type(problem) == "table" and problem.err or tostring(problem)
  if string.find(said, "^%u+ ") then return redis.error_reply(said) end
  return redis.error_reply((string.find(said, "^@") and "ERR " or "LINE ") .. said)
end

local answers = {}
for number, call in ipairs(request.calls) do
  local ok, answer = pcall(answer_to, call)
  if not ok then answer = type(answer) == "table" and answer.window_at or problem_of(answer) end
  answers[number] = answer
end
return answers
