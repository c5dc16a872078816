-- Calls of one command, applied one after the other: each reads its accounts, applies its operations in order, and writes
-- the changes before the next call begins.
--
-- KEYS are the key of the answers that are kept, or one for each call, and accounts. ARGV[1] is the request: see request.rs. On a
-- Cluster the calls may be in several slots, and a command names keys of one: then ARGV[2] has all keys, and KEYS the first.
-- Answers for each call its outcomes, packed; or, with nothing changed, a time whose calendar windows must be sent as
-- well; or an error. Then come the accounts that were written, packed: {account, its value, ...}.

-- More answers than that are not kept: calls wait until some were read, or are so old that they are no longer asked for.
local UNREAD_BYTES_MAX = 262144

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
local function read_keys_of(call, number)
  local places, names = { number }, {}
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

-- What this process read of accounts before their primary changed, by their place. Nil in the common request.
local recalled = nil
for _, known in ipairs(request.recalled or {}) do
  recalled = recalled or {}
  recalled[known[1]] = known[2]
end

-- An account, and whether it must be written whatever is done with it.
local function open(at, policy)
  local account = engine.account.read(values[at], policy, now)
  if not request.primary then return account, false end
  local text = recalled and recalled[at]
  return account, engine.recall.open(account, policy, request.primary, text, now)
end

-- Applies the operations of a call: answers their outcomes, its accounts, and which of them have changed.
local function apply_all(call)
  local accounts, changed, outcomes = {}, {}, {}
  for number, operation in ipairs(call.operations) do
    local own, charges = {}, operation.parties
    for index, charge in ipairs(charges) do
      local at = charge.line
      charge.policy = request.policies[charge.policy]
      if not accounts[at] then accounts[at], changed[at] = open(at, charge.policy) end
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

local written = {}

local function write(at, account)
  -- Until it expires, rounded up, plus a grace period in case the clock is set back.
  local lifetime = math.ceil(since(account.expires, now) / 1000) + request.grace
  values[at] = engine.account.write(account)
  redis.call("SET", keys[at], values[at], "PX", lifetime)
  written[#written + 1], written[#written + 2] = at, values[at]
end

-- The answers of this process's calls, in case they are lost: {connection, kept} packed one after the other, where kept is
-- {command, at, first, last, answers} of each command: its number, its time, the first and last of its calls, and
-- {sequence, answer, ...} packed. A later command says which were read; without a word about that, all were, and each call has a
-- record of its own, for one account.
local records = {}

local function drop_read_answers(record)
  local kept, unread, read, oldest = record.kept, record.unread, {}, now - request.answer_kept * 1000
  for _, command in ipairs(request.read) do read[command] = true end
  for i = 1, #kept, 5 do
    if kept[i + 1] > oldest and not read[kept[i]] then
      for j = i, i + 4 do unread[#unread + 1] = kept[j] end
      record.bytes = record.bytes + #kept[i + 4]
    end
  end
end

local function record_of(number)
  local at = request.read and 1 or number
  if records[at] then return records[at] end
  local record = { at = at, connection = 0, kept = {}, unread = {}, bytes = 0, fresh = {} }
  if values[at] then record.connection, record.kept = unpack_text(values[at]) end
  if request.read and record.kept[1] then drop_read_answers(record) end
  records[at] = record
  return record
end

local function answer_before(kept, sequence)
  for i = 1, #kept, 5 do
    if kept[i + 2] <= sequence and sequence <= kept[i + 3] then
      local answers = unpack_text(kept[i + 4])
      for j = 1, #answers, 2 do
        if answers[j] == sequence then return answers[j + 1] end
      end
    end
  end
end

-- Why a call that was not applied yet is not applied now either, if there is a reason: a later one was applied, so that this
-- is a copy that was held up on its way; or too many answers are unread.
local function held_up(record, sequence)
  if request.read and record.connection > request.connection then
    return redis.error_reply("OUTDATED connection: this process has used a newer one")
  elseif not request.read and record.kept[4] > sequence then
    return redis.error_reply("OVERTAKEN by a later call of the same writer")
  elseif record.bytes > UNREAD_BYTES_MAX then
    return redis.error_reply("BUSY this process has read too few of its answers")
  end
end

-- Notes the answer of a call that has changed something. A full server gets no new key for that: what is sent again then
-- counts twice.
local function keep_answer(record, call, answer)
  local fresh = record.fresh
  if values[record.at] or not is_full then fresh[#fresh + 1], fresh[#fresh + 2] = call.sequence, answer end
  return answer
end

local function write_answers(record)
  local fresh, unread = record.fresh, record.unread
  local first, last, count = fresh[1], fresh[1], #unread
  for i = 3, #fresh, 2 do first, last = min(first, fresh[i]), max(last, fresh[i]) end
  unread[count + 1], unread[count + 2], unread[count + 3], unread[count + 4] = request.command or 0, now, first, last
  unread[count + 5] = pack(fresh)
  redis.call("SET", keys[record.at], pack(request.connection or 0, unread), "PX", request.answer_kept)
end

-- The common call: one operation on one account.
local function answer_to_one(record, call, operation, charge)
  local at = charge.line
  charge.policy = request.policies[charge.policy]
  local account, was_raised = open(at, charge.policy)
  local own = { account }
  local how = operation.permits and engine.equal_takes or engine.apply
  local outcome, has_changed = how.apply(operation, own, now)
  has_changed = has_changed or was_raised
  if operation.counts_made and has_changed and not values[at] then note_made(operation, outcome) end
  local answer = pack({ outcome })
  if not has_changed or own[1].expires == 0 then return answer end
  write(at, own[1])
  return keep_answer(record, call, answer)
end

local function answer_to(call, number)
  if in_slots then read_keys_of(call, number) end
  local record, sequence = record_of(number), call.sequence
  -- A call that was applied before, and whose answer was lost, counts once.
  if record.kept[1] then
    local answer = answer_before(record.kept, sequence) or held_up(record, sequence)
    if answer then return answer end
  end
  if call.refunds_again then
    return redis.error_reply("LOST the answer to a correction: it may have been applied, and is not applied again")
  end
  if shared then
    local problem = share_accounts(call)
    if problem then return problem end
  end
  local operation = call.operations[1]
  if #call.operations == 1 and #operation.parties == 1 then
    return answer_to_one(record, call, operation, operation.parties[1])
  end
  local outcomes, accounts, changed = apply_all(call)
  local answer, has_written = pack(outcomes), false
  for at, has_changed in pairs(changed) do
    -- A shadow that would have denied a new subject has left nothing to keep.
    if has_changed and accounts[at].expires > 0 then
      write(at, accounts[at])
      has_written = true
    end
  end
  return has_written and keep_answer(record, call, answer) or answer
end

-- What went wrong, as an error of the server's: those have a code in front, and older servers an @ before it. What else
-- stops a script is a stored value that it cannot read.
local function problem_of(problem)
  local said = type(problem) == "table" and problem.err or tostring(problem)
  if string.find(said, "^%u+ ") then return redis.error_reply(said) end
  return redis.error_reply((string.find(said, "^@") and "ERR " or "LINE ") .. said)
end

-- The common call in its long form: see common_take.rs.
local function spell_out(call)
  local amounts = {}
  for i = 7, #call do amounts[i - 6] = call[i] end
  local party = { line = call[2], policy = call[3], charges = amounts }
  local take = { verb = "take", permit = call[6], max_wait = call[4], readings = call[5], parties = { party } }
  return { sequence = call[1], operations = { take } }
end

local answers = {}
for number, call in ipairs(request.calls) do
  local ok, answer = pcall(answer_to, call[1] and spell_out(call) or call, number)
  if not ok then answer = type(answer) == "table" and answer.window_at or problem_of(answer) end
  answers[number] = answer
end
for _, record in pairs(records) do
  if record.fresh[1] then write_answers(record) end
end
if written[1] then answers[#answers + 1] = pack(written) end
return answers
