-- Counters: plain counts under keys that others read and write as well. A window runs as long as its key lives: no
-- key, no window.

local pack, unpack_text = cmsgpack.pack, cmsgpack.unpack
local floor, max, min = math.floor, math.max, math.min

-- COUNT_MAX: where counts saturate, and the last timestamp ("never").
local MAX = 9007199254740991

-- The keys before the counters': the writer's, and those of ids and refunds.
local KEYS_BEFORE = 3

-- Their values that are read with those of the counters: the writer's.
local VALUES_BEFORE = 1

-- How often the clock may tick while the counters are read.
local READ_TRIES_MAX = 4

-- The time in microseconds, and in whole milliseconds, which is how long keys live.
local now, now_millis
-- Of the call in hand.
local keys, counters = {}, {}

local function look_at_clock()
  local time = redis.call("TIME")
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  now_millis = floor(now / 1000)
end

-- As the server's own INCR writes it, and as exact as a number is here.
local function whole(number)
  if number == 1 then return "1" end
  return string.format("%.0f", number)
end

-- The least number of so many digits.
local LEAST = { 0, 10, 100 }
for digits = 4, 17 do LEAST[digits] = LEAST[digits - 1] * 10 end

-- As the server's own INCR reads it: a whole number with as many digits as it needs, and nothing else.
local function read_count(value)
  local count, digits = value and tonumber(value), value and #value
  if not count or digits > 16 or count < LEAST[digits] or count >= LEAST[digits + 1] then return nil end
  return count <= MAX and count % 1 == 0 and count or nil
end

-- What each key has left to live: -1 is for ever, -2 there is none. All within one millisecond of the clock, so that
-- the end of each is known to the millisecond. The clock was looked at before: by the call before, or as the first thing.
local function read_lifetimes(count)
  local left = {}
  for _ = 1, READ_TRIES_MAX do
    local begun = now_millis
    for i = 1, count do left[i] = redis.call("PTTL", keys[KEYS_BEFORE + i]) end
    look_at_clock()
    if now_millis == begun then break end
  end
  return left
end

-- Reads every counter: `count`, and in milliseconds its `period` and the `last` in which its window runs; without
-- that, no window does. Answers the number of a key that holds no count, if one does.
local function read_counters(periods, values)
  local left = read_lifetimes(#periods)
  for i, period in ipairs(periods) do
    local counter = { period = period, count = 0 }
    if left[i] ~= -2 then
      counter.was = read_count(values[VALUES_BEFORE + i])
      if not counter.was then return KEYS_BEFORE + i end
      counter.count = counter.was
      -- Somebody's INCR came between the end of a window and the key's new one: its window begins now.
      counter.endless = left[i] == -1
      counter.last = now_millis + (counter.endless and period or left[i])
    end
    counters[i] = counter
  end
end

-- The first moment after the window. Keys still live in their last millisecond.
local function ends(counter)
  return min((counter.last + 1) * 1000, MAX)
end

-- Counts, in a window that begins now if none runs.
local function debit(counter, charge)
  if not counter.last then counter.opened, counter.last = true, now_millis + counter.period end
  counter.count = counter.count + charge
end

-- Replaces what was reserved by what was used, if the window is still the one it was booked in: one that had begun by
-- then. Says whether it is.
local function settle(counter, booked_at, reserved, actual)
  local here = counter.last and (counter.last - counter.period) * 1000 <= booked_at
  if here then counter.count = min(max(counter.count - reserved, 0) + actual, MAX) end
  return here
end

local function clear(counter)
  counter.count, counter.last, counter.opened, counter.endless = 0, nil, nil, nil
end

-- Writes what has changed; says whether a count has.
local function write_counter(i, counter)
  local key, changed = keys[KEYS_BEFORE + i], true
  if not counter.last then
    changed = counter.was and redis.call("DEL", key)
  elseif counter.opened then
    redis.call("SET", key, whole(counter.count), "PXAT", whole(counter.last))
  elseif counter.count ~= counter.was then
    redis.call("INCRBY", key, whole(counter.count - counter.was))
  else
    changed = false
  end
  if counter.asked and counter.endless then redis.call("PEXPIREAT", key, whole(counter.last)) end
  return changed
end
