-- One call: its counters are read once, its operations applied in order, and what has changed is written in the end.
--
-- KEYS[1] is the writer's key for the call's tag, KEYS[2] and KEYS[3] keep its ids and refunds, then come the counters,
-- and in the end those that are to be forgotten. ARGV[1] is the request: see request.rs. Answers the outcomes, packed; or, with nothing changed, the number
-- of a key that holds no count.

local PARTIES_PER_TAKE_MAX = 16

local request = unpack_text(ARGV[1])
local values = redis.call("MGET", unpack(KEYS))

-- A call that was applied before, and whose answer was lost, counts once (I5); so does one that was overtaken on
-- its way.
if values[1] then
  local last, answer = unpack_text(values[1])
  if last == request.sequence then return answer end
  if last > request.sequence then return redis.error_reply("OVERTAKEN by a later call of the same writer") end
end

local no_count = read_counters(request.periods, values)
if no_count then return no_count end

-- What is wrong with the parties, if anything is. Two of them have one counter only if they are the same.
local function refuse_parties(operation)
  if operation.parties > PARTIES_PER_TAKE_MAX then return { "refused", "party_count" } end
  local seen = {}
  for _, meter in ipairs(operation.meters) do
    if seen[meter.counter] then return { "refused", "same_party", meter.party } end
    seen[meter.counter] = true
  end
end

local outcomes = {}
for number, operation in ipairs(request.operations) do
  outcomes[number] = refuse_parties(operation) or verbs[operation.verb](operation)
end

local answer, changed = pack(outcomes), memory_changed
for i, counter in ipairs(counters) do
  if write_counter(i, counter) then changed = true end
end
for i = KEYS_BEFORE + #counters + 1, #KEYS do
  if values[i] then redis.call("DEL", KEYS[i]) end
end
if changed then redis.call("SET", KEYS[1], pack(request.sequence, answer), "PX", request.answer_kept) end
return answer
