-- Counters: plain counts under keys that others read and write as well. A window runs as long as its key lives: no
-- key, no window.

local pack, unpack_text, unpack_first = cmsgpack.pack, cmsgpack.unpack, cmsgpack.unpack_one
local floor, max, min = math.floor, math.max, math.min

-- COUNT_MAX: where counts saturate, and the last timestamp ("never").
local MAX = 9007199254740991

-- The keys before the counters': the writer's, and those of ids and refunds.
local KEYS_BEFORE = 3

-- Their values that are read with those of the counters: the writer's.
local VALUES_BEFORE = 1

-- The time in microseconds, and in whole milliseconds, which is how long keys live. One moment for all calls.
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_millis = floor(now / 1000)
-- Of the call in hand; `replaced` are the numbers of the keys that held no count and now hold one.
local keys, counters, replaced = {}, {}, {}
-- Whether the server has no room for new keys.
local is_full = false

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
  return count <= MAX and not string.find(value, "%D") and count or nil
end

-- The last millisecond in which a counter's window runs, and whether its key has no end; nothing if no window runs. A key
-- that had not ended when the script began is there until the script ends, even if it has by the clock: what was added to
-- it then would be gone with it.
local function window_of(i, period)
  local last = redis.call("PEXPIRETIME", keys[KEYS_BEFORE + i])
  -- An INCR of another program created the key without an expiry: its window begins now.
  if last == -1 then return now_millis + period, true end
  if last < now_millis then return nil end
  return last, false
end

-- Reads every counter: `count`, and in milliseconds its `period` and the `last` in which its window runs; without
-- that, no window does. A key that holds no count is `broken` and has no window: the next debit replaces it.
local function read_counters(periods, values)
  for i, period in ipairs(periods) do
    local counter = { period = period, count = 0 }
    local last, endless = window_of(i, period)
    local count = last and read_count(values[VALUES_BEFORE + i])
    if count then
      counter.was, counter.count, counter.last, counter.endless = count, count, last, endless
    else
      counter.broken = last ~= nil
    end
    counters[i] = counter
  end
end

-- Begins a window. SET replaces a value of any type.
local function open_window(i, count, last, was_broken)
  redis.call("SET", keys[KEYS_BEFORE + i], whole(count), "PXAT", whole(last))
  if was_broken then replaced[#replaced + 1] = KEYS_BEFORE + i end
end

-- The first moment after the window. Keys still live in their last millisecond.
local function ends(counter)
  return min((counter.last + 1) * 1000, MAX)
end

-- Counts, in a window that begins now if none runs.
local function debit(counter, amount)
  if not counter.last then counter.opened, counter.last = true, now_millis + counter.period end
  counter.count = counter.count + amount
end

-- Replaces what was reserved by what was used, if the window is still the one it was booked in: one that had begun by
-- then. Says whether it is.
local function settle(counter, booked_at, reserved, actual)
  local here = counter.last and (counter.last - counter.period) * 1000 <= booked_at
  if here then counter.count = min(max(counter.count - reserved, 0) + actual, MAX) end
  return here
end

local function clear(counter)
  counter.count, counter.last, counter.opened, counter.endless, counter.cleared = 0, nil, nil, nil, true
end

-- Writes what has changed; says whether a count has.
local function write_counter(i, counter)
  local key, changed = keys[KEYS_BEFORE + i], true
  if not counter.last then
    changed = (counter.was or counter.broken and counter.cleared) and redis.call("DEL", key)
  elseif counter.opened then
    open_window(i, counter.count, counter.last, counter.broken)
  elseif counter.count ~= counter.was then
    redis.call("INCRBY", key, whole(counter.count - counter.was))
  else
    changed = false
  end
  if counter.asked and counter.endless then redis.call("PEXPIREAT", key, whole(counter.last)) end
  return changed
end
