-- Continuous refill, exact for odd rates. Mirrors bucket.rs.
-- The meter is {identity, used, part}: `used + part / period` units are used.

parts.bucket = function()
  local bucket = {}

  local REFILLS_SOON = 3600000000

  -- What is still used after `elapsed`.
  function bucket.after(limit, used, part, elapsed)
    if elapsed == 0 or (used == 0 and part == 0) then return used, part end
    local drained, drained_part = multiply_divide(elapsed, limit.amount, limit.period)
    used, part = used - drained, part - drained_part
    if part < 0 then used, part = used - 1, part + limit.period end
    if used < 0 then return 0, 0 end
    return used, part
  end

  -- What is used in whole units, a part counting as one.
  function bucket.whole(used, part)
    return part > 0 and used + 1 or used
  end

  -- How long until `amount` fits: zero if it does now. Rounded up.
  function bucket.wait_for(limit, used, part, burst, amount)
    local room = since(burst, amount)
    if bucket.whole(used, part) <= room then return 0 end
    local rate = limit.amount
    local wait, rest = multiply_divide(used - room, limit.period, rate)
    return min(wait + floor((rest + part + rate - 1) / rate), MAX)
  end

  -- When nothing of it is used any more, if it is as of `as_of`.
  function bucket.good_as_new_at(limit, used, part, as_of)
    if used == 0 and part == 0 then return 0 end
    return plus(as_of, bucket.wait_for(limit, used, part, 0, 0))
  end

  -- Until when its account is kept after a take: exactly, or until it has surely refilled where that is soon.
  function bucket.kept_until(limit, used, part, at)
    local holds = bucket.whole(used, part) <= limit.capacity
    if holds and limit.refill_time <= REFILLS_SOON then return plus(at, limit.refill_time) end
    return bucket.good_as_new_at(limit, used, part, at)
  end

  -- Gives units back; never above full.
  function bucket.credit(used, part, units)
    if used >= units then return used - units, part end
    return 0, 0
  end

  -- Limit::refilled_in: the whole units that refill in this time, rounded up.
  function bucket.refilled_in(limit, elapsed)
    local whole, rest = multiply_divide(elapsed, limit.amount, limit.period)
    return rest > 0 and whole + 1 or whole
  end
  return bucket
end
