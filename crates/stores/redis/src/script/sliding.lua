-- The two-window weighted count. Mirrors sliding.rs.
-- The meter is {identity, start, previous, current}.

parts.sliding = function()
  local sliding = {}

  -- The two windows at `at`.
  function sliding.at(period, start, previous, current, at)
    if at < plus(start, period) then return start, previous, current end
    local later = at - at % period
    return later, later == plus(start, period) and current or 0, 0
  end

  -- The weighted count at `at`, rounded up.
  function sliding.used(period, start, previous, current, at)
    start, previous, current = sliding.at(period, start, previous, current, at)
    local faded, rest = multiply_divide(previous, since(period, since(at, start)), period)
    return current + faded + (rest > 0 and 1 or 0)
  end

  -- How far into a window the weight of `previous` has faded to `room` or less: rounded up, against the caller.
  function sliding.fades_to(previous, room, period)
    if previous <= room then return 0 end
    return period - multiply_divide(room, period, previous)
  end

  -- The earliest moment from `from` on at which `amount` fits, if usage does not change before.
  function sliding.earliest(period, start, previous, current, capacity, amount, from)
    start, previous, current = sliding.at(period, start, previous, current, from)
    -- At most two steps: in the third window nothing is left of the first.
    for _ = 1, 2 do
      local room = since(capacity, amount) - current
      if room >= 0 then return max(from, plus(start, sliding.fades_to(previous, room, period))) end
      start, previous, current = sliding.at(period, start, previous, current, plus(start, period))
    end
    return max(from, start)
  end

  function sliding.good_as_new_at(period, start, previous, current)
    if current > 0 then return plus(start, min(period * 2, MAX)) end
    return previous > 0 and plus(start, period) or 0
  end
  return sliding
end
