-- Fixed windows: a count that begins anew at each edge. Beside window.rs and calendar.rs.
-- The meter is {identity, ends, count}.

parts.window = function()
  local window = {}

  -- Calendar::window_at: the aligned window that contains `at`, its start and its end.
  function window.around(limit, at)
    if limit.kind == "every" then
      local start = at - at % limit.period
      return start, plus(start, limit.period)
    end
    -- Days, weeks and months of a zone: the caller sent those it thought of. If it is none of them, it is asked
    -- for more.
    local windows = limit.windows
    for i = 1, #windows, 2 do
      local ends = windows[i + 1]
      if windows[i] <= at and (at < ends or ends == MAX) then return windows[i], ends end
    end
    error({ window_at = at })
  end

  -- The window at `at`: this one, or the one that has begun since, empty.
  function window.at(limit, ends, count, at)
    if at < ends then return ends, count end
    local _, later = window.around(limit, at)
    return later, 0
  end

  -- Its start, and the part of its beginning and its end in which nothing is granted: as wished, at most a
  -- twentieth.
  function window.edge(limit, ends, wished)
    local start, same = window.around(limit, since(ends, 1))
    return start, min(wished, floor((same - start) / 20))
  end

  -- The earliest moment from `from` on at which `charge` fits and the window's edges are kept.
  function window.earliest(limit, ends, count, charge, from, wished)
    if wished == 0 then
      if (from < ends and count or 0) + charge <= limit.amount then return from end
      return (window.at(limit, ends, count, from))
    end
    ends, count = window.at(limit, ends, count, from)
    local start, edge = window.edge(limit, ends, wished)
    if count + charge <= limit.amount and from < since(ends, edge) then return max(from, plus(start, edge)) end
    start, edge = window.edge(limit, (window.at(limit, ends, count, ends)), wished)
    return plus(start, edge)
  end

  -- Until when a permit of this window may begin: its end less the edge.
  function window.good_until(limit, ends, wished)
    if wished == 0 then return ends end
    local _, edge = window.edge(limit, ends, wished)
    return since(ends, edge)
  end

  -- The earliest moment from `from` on at which `charge` fits a window that starts at its first take.
  function window.earliest_unaligned(limit, ends, count, charge, from)
    if (from < ends and count or 0) + charge <= limit.amount then return from end
    return from < ends and ends or 0
  end

  -- Counts `charge` at `at`, in a window of `period` that begins now if none is running.
  function window.debit_unaligned(limit, ends, count, charge, at)
    if charge == 0 then return ends, count end
    if ends <= at then ends, count = plus(at, limit.period), 0 end
    return ends, min(count + charge, MAX)
  end
  return window
end
