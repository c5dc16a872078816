-- A line: all meters of one policy for one subject, and the place up to which they are booked. Beside line.rs.
--
-- It is {seen, expires, meters, extra} by name; as stored, those four packed one after the other. `extra` is nil
-- for most lines; in it nil stands for nothing, and indices of limits begin at 1. The lists that can be long stay
-- packed until they are asked for: `calls` is {id, asked, permit, granted_at, at, good_until, would_deny, expires}
-- for each, and `refunds` {permit, expires, permit, expires, ...}; `calls_expire` and `refunds_expire` are their
-- last ends.

parts.line = function()
  local line_of = {}

  -- The line as it was stored; one that has expired is new, which makes no difference (I6).
  function line_of.read(text, policy, now)
    if text then
      local seen, expires, meters, extra = unpack_text(text)
      if expires > now then return { seen = seen, expires = expires, meters = meters, extra = extra } end
    end
    return engine.change.new(policy)
  end

  function line_of.write(line)
    return pack(line.seen, line.expires, line.meters, line.extra)
  end

  -- The place of the last booking: nobody waits ahead unless it lies after now.
  function line_of.frontier(line)
    local extra = line.extra
    return extra and extra.frontier or 0
  end

  -- What the meters are as of: the last change, or the last booking if that lies later.
  function line_of.as_of(line)
    local seen, frontier = line.seen, line_of.frontier(line)
    return frontier > seen and frontier or seen
  end

  -- Whether the meters are those of `policy`, in its order.
  function line_of.fits(line, policy)
    local meters, limits = line.meters, policy.limits
    if #meters ~= #limits then return false end
    for i = 1, #limits do
      if meters[i][1] ~= limits[i].identity then return false end
    end
    return true
  end

  -- Notes a debit at `now`: the clock reading, and when the meters will be as good as new.
  function line_of.changed(line, now, meters_expire, policy)
    line.seen = now
    line.expires = max(meters_expire, now)
    if line.extra then
      engine.change.drop_undo(line)
      engine.change.note_expiry(line, policy)
    end
  end
  return line_of
end
