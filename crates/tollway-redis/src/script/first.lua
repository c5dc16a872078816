-- Windows from first call. Beside window.rs.
-- The meter is {identity, ends, count}; none is running once `ends` has passed.

parts.first = function()
  local first = {}

  -- The earliest moment from `from` on at which `charge` fits a window that starts at its first take.
  function first.earliest(limit, ends, count, charge, from)
    if (from < ends and count or 0) + charge <= limit.amount then return from end
    return from < ends and ends or 0
  end

  -- Counts `charge` at `at`, in a window of `period` that begins now if none is running.
  function first.debit(limit, ends, count, charge, at)
    if charge == 0 then return ends, count end
    if ends <= at then ends, count = plus(at, limit.period), 0 end
    return ends, min(count + charge, MAX)
  end
  return first
end
