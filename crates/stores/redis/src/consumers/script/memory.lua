-- What is remembered beside the counters, for the tag of the call: callers' ids that count once, and permits that were
-- refunded.

local IDS, REFUNDS
local CALL_IDS_MAX, REFUNDS_MAX = 1024, 1024
local CALL_ID_REMEMBERED = 600000000
local REFUND_REMEMBERED = 600000000

-- Whether something was written here.
local memory_changed = false

-- Each id with its grant: {asked, permit, at, good_until, expires}.
local function each_call(see)
  local all = redis.call("HGETALL", IDS)
  for i = 1, #all, 2 do see(all[i], unpack_text(all[i + 1])) end
end

local function forget_calls(where)
  each_call(function(id, known)
    if where(known) then
      redis.call("HDEL", IDS, id)
      memory_changed = true
    end
  end)
end

-- The take that was granted under this id, if it still counts.
local function call_of(id)
  local packed = redis.call("HGET", IDS, id)
  local known = packed and unpack_text(packed)
  return known and known[5] > now and known or nil
end

-- Whether one more id can be remembered.
local function has_room_for_call()
  if redis.call("HLEN", IDS) < CALL_IDS_MAX then return true end
  local live = 0
  each_call(function(_, known) live = live + (known[5] > now and 1 or 0) end)
  return live < CALL_IDS_MAX
end

-- A full server remembers no more: a take that is repeated with the id counts again.
local function remember_call(id, asked, permit, good_until)
  if is_full then return end
  if redis.call("HLEN", IDS) >= CALL_IDS_MAX then
    forget_calls(function(known) return known[5] <= now end)
  end
  redis.call("HSET", IDS, id, pack({ asked, permit, now, good_until, now + CALL_ID_REMEMBERED }))
  redis.call("PEXPIRE", IDS, CALL_ID_REMEMBERED / 1000)
  memory_changed = true
end

-- An id whose permit was given back takes again: what it was granted is no longer its.
local function forget_call(permit)
  forget_calls(function(known) return known[2] == permit end)
end

-- Remembers that a permit was refunded until that cannot matter any more. If it was before, or no more fit, it
-- answers that, and nothing has changed.
local function remember_refund(booking, longest)
  if redis.call("ZSCORE", REFUNDS, booking.permit) then return "repeated" end
  if is_full then return "dropped" end
  redis.call("ZREMRANGEBYSCORE", REFUNDS, "-inf", whole(now))
  if redis.call("ZCARD", REFUNDS) >= REFUNDS_MAX then return "dropped" end
  local expires = max(booking.at + longest * 1000, now + REFUND_REMEMBERED)
  redis.call("ZADD", REFUNDS, whole(expires), booking.permit)
  local lives = max(redis.call("PTTL", REFUNDS), floor((expires - now) / 1000) + 1)
  redis.call("PEXPIRE", REFUNDS, whole(lives))
  memory_changed = true
end
