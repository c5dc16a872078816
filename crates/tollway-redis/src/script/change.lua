-- How a line changes beyond its meters. Beside line.rs.

parts.change = function()
  local change = {}

  local ORPHANS_MAX = 32

  -- A line that nobody has touched.
  function change.new(policy)
    local meters = {}
    for i, limit in ipairs(policy.limits) do meters[i] = engine.meter.fresh_meter(limit) end
    return { seen = 0, expires = 0, meters = meters }
  end

  -- The newest clock reading that any of the lines has seen, or `now`.
  function change.newest(lines, now)
    for i = 1, #lines do now = max(now, lines[i].seen) end
    return now
  end

  function change.extra(line)
    line.extra = line.extra or {}
    return line.extra
  end

  function change.drop_empty_extra(line)
    if line.extra and next(line.extra) == nil then line.extra = nil end
  end

  -- Makes the meters those of `policy`, in its order; what it does not name is kept as orphans until as good as
  -- new, unless the policy forgets.
  function change.refit(line, policy)
    local as_of, extra = engine.line.as_of(line), change.extra(line)
    local left = {}
    for _, meter in ipairs(line.meters) do
      left[meter[1]] = { meter = meter, as_of = as_of, expires = line.expires }
    end
    for _, orphan in ipairs(extra.orphans or {}) do left[orphan.meter[1]] = orphan end
    local meters = {}
    for i, limit in ipairs(policy.limits) do
      local orphan = left[limit.identity]
      left[limit.identity] = nil
      if orphan then
        meters[i] = orphan.meter
        -- Slots end when they say, and are held by the clock, not by the line.
        if not engine.kind.has_slots(limit) then
          engine.meter.advance(limit, orphan.meter, orphan.as_of, as_of)
        end
      else
        meters[i] = engine.meter.fresh_meter(limit)
      end
    end
    local orphans = {}
    for _, orphan in pairs(left) do
      if orphan.expires > as_of and not policy.forgets then orphans[#orphans + 1] = orphan end
    end
    -- Those that would have counted longest are kept.
    table.sort(orphans, function(one, other) return one.expires > other.expires end)
    for i = #orphans, ORPHANS_MAX + 1, -1 do orphans[i] = nil end
    line.meters = meters
    extra.orphans = #orphans > 0 and orphans or nil
    extra.undo, extra.frontier_limit = nil, nil
    change.drop_empty_extra(line)
  end

  -- Something else has changed since the last booking; and nobody stands in a line that lies behind.
  function change.drop_undo(line)
    local extra = line.extra
    if extra then
      extra.undo = nil
      if (extra.frontier or 0) <= line.seen then extra.frontier, extra.frontier_limit = nil, nil end
      change.drop_empty_extra(line)
    end
  end

  -- Notes when the line will be as good as new. The last step of every change.
  function change.note_expiry(line, policy)
    local as_of = engine.line.as_of(line)
    -- Never before what it has seen: a clock that went back must not find a window new that has passed (I7).
    local expires = as_of
    for i, limit in ipairs(policy.limits) do
      expires = max(expires, engine.meter.good_as_new_at(limit, line.meters[i], as_of))
    end
    local extra = line.extra
    if extra then
      expires = max(expires, extra.calls_expire or 0, extra.refunds_expire or 0, extra.epoch_expires or 0)
      for _, orphan in ipairs(extra.orphans or {}) do expires = max(expires, orphan.expires) end
    end
    line.expires = expires
  end

  local function has_bucket(policy)
    for _, limit in ipairs(policy.limits) do
      -- Most denials come here, and need no part but this one.
      local kind = limit.kind
      if kind == "bucket" then return true end
      if kind ~= "every" and kind ~= "calendar" and kind ~= "first" and kind ~= "sliding" and kind ~= "slots" then
        engine.kind.unknown(limit)
      end
    end
    return false
  end

  -- A rate that was lowered since the last change refills later than was thought then: keeps the line for longer (I6),
  -- and says whether it did.
  function change.keep_longer(line, policy)
    local before = line.expires
    if before == 0 or not has_bucket(policy) then return false end
    change.note_expiry(line, policy)
    if line.expires > before then return true end
    line.expires = before
    return false
  end

  -- Records a clock reading, and brings the meters along.
  function change.bring_to(line, policy, now)
    local as_of = engine.line.as_of(line)
    line.seen = max(line.seen, now)
    local to = engine.line.as_of(line)
    for i, limit in ipairs(policy.limits) do engine.meter.advance(limit, line.meters[i], as_of, to) end
  end
  return change
end
