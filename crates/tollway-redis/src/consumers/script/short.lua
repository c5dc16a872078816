-- The short way for what is asked most, one take of one subject without an id: it comes to the same as the verbs, without a
-- table for each counter. Its meters and counters have the same order.

local function is_short(request)
  local operation = request.operations[1]
  return #request.operations == 1 and operation.verb == "take" and operation.parties == 1 and not operation.call
end

-- What each counter counts, the last millisecond of its window if one runs, and whether its key has no end.
local function read_plainly(periods, values)
  local counts, lasts, endless = {}, {}, {}
  for i, period in ipairs(periods) do
    local last, has_no_end = window_of(i, period)
    counts[i], lasts[i], endless[i] = 0, last or false, has_no_end
    if last then
      counts[i] = read_count(values[VALUES_BEFORE + i])
      if not counts[i] then return nil, KEYS_BEFORE + i end
    end
  end
  return counts, lasts, endless
end

local function readings_of(counts, lasts)
  local readings = {}
  for i, count in ipairs(counts) do
    local n = 3 * i
    readings[n - 2], readings[n - 1], readings[n] = count, lasts[i] and max(lasts[i] * 1000, now) or now, now
  end
  return readings
end

-- Answers the outcome, and whether anything was counted; or nothing and the number of a key that holds no count.
local function take_shortly(request, values)
  local operation, periods = request.operations[1], request.periods
  local meters, at, denying, good_until, counted = operation.meters, nil, nil, MAX, false
  local counts, lasts, endless = read_plainly(periods, values)
  if not counts then return nil, lasts end
  for _, meter in ipairs(meters) do
    if meter[CHARGE] > meter[AMOUNT] then return { "refused", "above_limit", meter[PARTY], meter[LIMIT] }, false end
  end
  at = now
  for i, meter in ipairs(meters) do
    -- A key without an end gets one also when it denies: else it would for ever.
    if endless[i] then redis.call("PEXPIREAT", keys[KEYS_BEFORE + i], whole(lasts[i])) end
    if meter[CHARGE] > 0 and counts[i] + meter[CHARGE] > meter[AMOUNT] then
      local ends = min((lasts[i] + 1) * 1000, MAX)
      if ends > at then at, denying = ends, meter end
    end
  end
  if denying then
    local shown = operation.readings and readings_of(counts, lasts)
    return { "denied", now, at, denying[PARTY], denying[LIMIT], shown }, false
  end
  for i, meter in ipairs(meters) do
    local charge, key = meter[CHARGE], keys[KEYS_BEFORE + i]
    if charge > 0 then
      counted, counts[i] = true, counts[i] + charge
      if lasts[i] and charge == 1 then
        redis.call("INCR", key)
      elseif lasts[i] then
        redis.call("INCRBY", key, whole(charge))
      else
        lasts[i] = now_millis + periods[i]
        redis.call("SET", key, whole(charge), "PXAT", whole(lasts[i]))
      end
      good_until = min(good_until, (lasts[i] + 1) * 1000)
    end
  end
  local shown = operation.readings and readings_of(counts, lasts)
  return { "granted", operation.permit, now, now, now, good_until, false, false, 0, shown }, counted
end
