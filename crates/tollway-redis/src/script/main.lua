-- Calls that came together. Each is a step of its own: its lines are read, its operations applied in order, and what has
-- changed is written before the next one begins.
--
-- KEYS are the writer's keys for the tags of the calls, and lines. ARGV[1] is the request: see request.rs.
-- Answers for each call its outcomes, packed; or, with nothing changed, a time whose calendar windows must be sent as
-- well; or an error.

local request = unpack_text(ARGV[1])
local values = redis.call("MGET", unpack(KEYS))

local now = request.now
if not now then
  local time = redis.call("TIME")
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Applies the operations of a call: answers their outcomes, its lines, and which of them have changed.
local function apply_all(call)
  local lines, changed, outcomes = {}, {}, {}
  for number, operation in ipairs(call.operations) do
    local own, parties = {}, operation.parties
    for index, party in ipairs(parties) do
      local at = party.line
      party.policy = request.policies[party.policy]
      lines[at] = lines[at] or engine.line.read(values[at], party.policy, now)
      own[index] = lines[at]
    end
    local how = operation.permits and engine.together or engine.apply
    local outcome, has_changed = how.apply(operation, own, now)
    outcomes[number] = outcome
    for index, party in ipairs(parties) do
      lines[party.line] = own[index]
      changed[party.line] = changed[party.line] or has_changed
    end
  end
  return outcomes, lines, changed
end

local function write(at, line)
  -- As long as it counts, rounded up, and a little longer in case the clock is set back.
  local lifetime = math.ceil(since(line.expires, now) / 1000) + request.grace
  values[at] = engine.line.write(line)
  redis.call("SET", KEYS[at], values[at], "PX", lifetime)
end

local function answer_to(call)
  local sequence = call.sequence
  -- A call that was applied before, and whose answer was lost, counts once (I5); so does one that was overtaken on
  -- its way.
  if values[call.writer] then
    local last, answer = unpack_text(values[call.writer])
    if last == sequence then return answer end
    if last > sequence then return redis.error_reply("OVERTAKEN by a later call of the same writer") end
  end
  local outcomes, lines, changed = apply_all(call)
  local answer, kept = pack(outcomes), false
  for at, has_changed in pairs(changed) do
    -- A shadow that would have denied a new subject has left nothing to keep.
    if has_changed and lines[at].expires > 0 then
      write(at, lines[at])
      kept = true
    end
  end
  if kept then redis.call("SET", KEYS[call.writer], pack(sequence, answer), "PX", request.answer_kept) end
  return answer
end

-- What went wrong, as an error of the server's: those have a code in front, and older servers an @ before it. What else
-- stops a script is a line that it does not understand.
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
