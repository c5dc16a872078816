-- Fixed windows: a count that resets at each edge. Mirrors window.rs and calendar.rs.
-- The meter is {identity, ends, count}.

parts.window = function()
  local window = {}

  -- Calendar::window_at: the aligned window that contains `at`, its start and its end.
  function window.around(limit, at)
    if limit.kind == "every" then
      local start = at - at % limit.period
      return start, plus(start, limit.period)
    end
    if limit.kind ~= "calendar" then return engine.kind.unknown(limit) end
    -- Days, weeks and months of a zone: the caller sends the likely windows. If none contains `at`, the script asks for
    -- more.
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

  -- The earliest moment from `from` on at which `amount` fits and the window's edges are kept.
  function window.earliest(limit, ends, count, amount, from, wished)
    if wished > 0 then return engine.edge.earliest(limit, ends, count, amount, from, wished) end
    if (from < ends and count or 0) + amount <= limit.amount then return from end
    return (window.at(limit, ends, count, from))
  end

  -- Until when a permit of this window may begin: its end less the edge.
  function window.good_until(limit, ends, wished)
    if wished == 0 then return ends end
    local _, edge = engine.edge.of(limit, ends, wished)
    return since(ends, edge)
  end
  return window
end
