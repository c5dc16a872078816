-- One call: its lines are read once, its operations applied in order, and what has changed is written in the end.
--
-- KEYS[1] is the writer's key for the call's tag, the others are lines. ARGV[1] is the request: see request.rs.
-- Answers the outcomes, packed; or, with nothing changed, a time whose calendar windows must be sent as well.

local request = unpack_text(ARGV[1])
local values = redis.call("MGET", unpack(KEYS))
local sequence = request.sequence

-- A call that was applied before, and whose answer was lost, counts once (I5); so does one that was overtaken on
-- its way.
if values[1] then
  local last, answer = unpack_text(values[1])
  if last == sequence then return answer end
  if last > sequence then return redis.error_reply("OVERTAKEN by a later call of the same writer") end
end

local now = request.now
if not now then
  local time = redis.call("TIME")
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local lines, changed, outcomes = {}, {}, {}

local function apply_all()
  for number, operation in ipairs(request.operations) do
    local own = {}
    for index, party in ipairs(operation.parties) do
      local at = party.line
      party.policy = request.policies[party.policy]
      lines[at] = lines[at] or engine.line.read(values[at + 1], party.policy, now)
      own[index] = lines[at]
    end
    local outcome, has_changed = engine.apply.apply(operation, own, now)
    outcomes[number] = outcome
    for index, party in ipairs(operation.parties) do
      lines[party.line] = own[index]
      changed[party.line] = changed[party.line] or has_changed
    end
  end
end

local ok, problem = pcall(apply_all)
if not ok then
  if type(problem) == "table" and problem.window_at then return problem.window_at end
  error(problem)
end

local answer = pack(outcomes)
local kept = false
for at, has_changed in pairs(changed) do
  local line = lines[at]
  -- A shadow that would have denied a new subject has left nothing to keep.
  if has_changed and line.expires > 0 then
    -- As long as it counts, rounded up, and a little longer in case the clock is set back.
    local lifetime = math.ceil(since(line.expires, now) / 1000) + request.grace
    redis.call("SET", KEYS[at + 1], engine.line.write(line), "PX", lifetime)
    kept = true
  end
end
if kept then redis.call("SET", KEYS[1], pack(sequence, answer), "PX", request.answer_kept) end
return answer
