-- The fast path for the most common call, one take of one subject without an id. The outcome equals that of the actions,
-- without a table for each counter. Its meters and counters have the same order, and there is one for each of six periods at most:
-- tables are made with all their places, because growing to have them takes longer than what is done with them.

local COUNTERS_MAX = 6

local function uses_fast_path(request)
  local operation = request.operations[1]
  return #request.operations == 1 and operation.verb == "take" and operation.parties == 1 and not operation.call
end

-- What each counter counts, the last millisecond of its window if one runs, which keys have no end, if any, and which hold
-- no count, if any.
local function read_counts(periods, values)
  local counts, lasts = { 0, 0, 0, 0, 0, 0 }, { false, false, false, false, false, false }
  local endless, broken
  for i = 1, #periods do
    local last, has_no_end = window_of(i, periods[i])
    local count = last and read_count(values[VALUES_BEFORE + i])
    if count then
      counts[i], lasts[i] = count, last
      if has_no_end then
        endless = endless or {}
        endless[i] = true
      end
    elseif last then
      broken = broken or {}
      broken[i] = true
    end
  end
  return counts, lasts, endless, broken
end

-- Used, resets_at and as_of of each counter, of which there are so many.
local function readings_of(counts, lasts, number)
  local readings = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  for i = 1, number do
    local n, resets_at = 3 * i, (lasts[i] or 0) * 1000
    readings[n - 2], readings[n - 1], readings[n] = counts[i], resets_at > now and resets_at or now, now
  end
  for n = 3 * number + 1, 3 * COUNTERS_MAX do readings[n] = nil end
  return readings
end

-- Counts in every window, which begins now where none runs: until when it is counted in all of them, and whether anything is.
local function count_all(meters, periods, counts, lasts, broken)
  local good_until, counted = MAX, false
  for i = 1, #meters do
    local amount, last, key = meters[i][AMOUNT], lasts[i], keys[KEYS_BEFORE + i]
    if amount > 0 then
      counted, counts[i] = true, counts[i] + amount
      if not last then
        last = now_millis + periods[i]
        lasts[i] = last
        open_window(i, amount, last, broken and broken[i])
      elseif amount == 1 then
        redis.call("INCR", key)
      else
        redis.call("INCRBY", key, whole(amount))
      end
      local ends = (last + 1) * 1000
      if ends < good_until then good_until = ends end
    end
  end
  return good_until, counted
end

-- Answers the outcome, and whether anything was counted.
local function take_fast(request, values)
  local operation, periods = request.operations[1], request.periods
  local meters, at, denying = operation.meters, now, nil
  local counts, lasts, endless, broken = read_counts(periods, values)
  for i = 1, #meters do
    local meter = meters[i]
    local amount, allowed = meter[AMOUNT], meter[ALLOWED]
    if amount > allowed then return { "refused", "above_limit", meter[CHARGE], meter[LIMIT] }, false end
    if amount > 0 and counts[i] + amount > allowed then
      local ends = min((lasts[i] + 1) * 1000, MAX)
      if ends > at then at, denying = ends, meter end
    end
  end
  -- A key without expiry gets one also on a denial; otherwise it would deny for ever.
  for i in pairs(endless or {}) do redis.call("PEXPIREAT", keys[KEYS_BEFORE + i], whole(lasts[i])) end
  if denying then
    local shown = operation.readings and readings_of(counts, lasts, #periods)
    return { "denied", now, at, denying[CHARGE], denying[LIMIT], shown }, false
  end
  local good_until, counted = count_all(meters, periods, counts, lasts, broken)
  local shown = operation.readings and readings_of(counts, lasts, #periods)
  return { "granted", operation.permit, now, now, now, good_until, false, false, 0, shown }, counted
end
