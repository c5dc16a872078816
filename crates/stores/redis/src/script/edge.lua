-- Windows that grant nothing in their first and last moments. Mirrors window.rs.

parts.edge = function()
  local edge_of = {}

  -- Its start, and the part of its beginning and its end in which nothing is granted: as wished, at most a
  -- twentieth.
  function edge_of.of(limit, ends, wished)
    local start, same = engine.window.around(limit, since(ends, 1))
    return start, min(wished, floor((same - start) / 20))
  end

  -- The earliest moment from `from` on at which `amount` fits and the window's edges are kept.
  function edge_of.earliest(limit, ends, count, amount, from, wished)
    local window_at = engine.window.at
    ends, count = window_at(limit, ends, count, from)
    local start, edge = edge_of.of(limit, ends, wished)
    if count + amount <= limit.amount and from < since(ends, edge) then return max(from, plus(start, edge)) end
    start, edge = edge_of.of(limit, (window_at(limit, ends, count, ends)), wished)
    return plus(start, edge)
  end
  return edge_of
end
