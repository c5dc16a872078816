-- How an account changes beyond its meters. Mirrors line.rs.

parts.change = function()
  local change = {}

  local ORPHANS_MAX = 32

  -- An unused account.
  function change.new(policy)
    local meters = {}
    for i, limit in ipairs(policy.limits) do meters[i] = engine.meter.fresh_meter(limit) end
    return { seen = 0, expires = 0, meters = meters }
  end

  -- The newest clock reading that any of the accounts has seen, or `now`.
  function change.newest(accounts, now)
    for i = 1, #accounts do now = max(now, accounts[i].seen) end
    return now
  end

  function change.extra(account)
    account.extra = account.extra or {}
    return account.extra
  end

  function change.drop_empty_extra(account)
    if account.extra and next(account.extra) == nil then account.extra = nil end
  end

  -- Makes the meters those of `policy`, in its order; what it does not name is kept as orphans until as good as
  -- new, unless the policy forgets.
  function change.refit(account, policy)
    local as_of, extra = engine.account.as_of(account), change.extra(account)
    local left = {}
    for _, meter in ipairs(account.meters) do
      left[meter[1]] = { meter = meter, as_of = as_of, expires = account.expires }
    end
    for _, orphan in ipairs(extra.orphans or {}) do left[orphan.meter[1]] = orphan end
    local meters = {}
    for i, limit in ipairs(policy.limits) do
      local orphan = left[limit.identity]
      left[limit.identity] = nil
      if orphan then
        meters[i] = orphan.meter
        -- Slots end when they say, and are held by the clock, not by the account.
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
    account.meters = meters
    extra.orphans = #orphans > 0 and orphans or nil
    extra.undo, extra.frontier_limit = nil, nil
    change.drop_empty_extra(account)
  end

  -- Something else has changed since the last booking; a frontier in the past means that the queue is empty. What the
  -- vendor said about a time that has passed goes too.
  function change.drop_past(account)
    local extra = account.extra
    if extra then
      extra.undo = nil
      if (extra.frontier or 0) <= account.seen then extra.frontier, extra.frontier_limit = nil, nil end
      if (extra.held_until or 0) <= account.seen then extra.held_until = nil end
      if extra.caps then
        local kept = {}
        for _, cap in ipairs(extra.caps) do
          if cap[3] > account.seen then kept[#kept + 1] = cap end
        end
        extra.caps = #kept > 0 and kept or nil
      end
      change.drop_empty_extra(account)
    end
  end

  -- Notes when the account will be as good as new. The last step of every change.
  function change.note_expiry(account, policy)
    local as_of = engine.account.as_of(account)
    -- Never before what it has seen: a clock that went back must not find a window new that has passed (I7).
    local expires = as_of
    for i, limit in ipairs(policy.limits) do
      expires = max(expires, engine.meter.good_as_new_at(limit, account.meters[i], as_of))
    end
    local extra = account.extra
    if extra then
      expires = max(expires, extra.calls_expire or 0, extra.refunds_expire or 0, extra.epoch_expires or 0)
      expires = max(expires, extra.held_until or 0)
      for _, cap in ipairs(extra.caps or {}) do expires = max(expires, cap[3]) end
      for _, orphan in ipairs(extra.orphans or {}) do expires = max(expires, orphan.expires) end
    end
    account.expires = expires
  end

  local function has_bucket(policy)
    for _, limit in ipairs(policy.limits) do
      -- Most denials come here, and need no part but this one.
      local kind = limit.kind
      if kind == "bucket" or kind == "adaptive" then return true end
      if kind ~= "every" and kind ~= "calendar" and kind ~= "first" and kind ~= "sliding" and kind ~= "slots" then
        engine.kind.unknown(limit)
      end
    end
    return false
  end

  -- A rate that was lowered since the last change refills later than was thought then: keeps the account for longer (I6),
  -- and says whether it did.
  function change.keep_longer(account, policy)
    local before = account.expires
    if before == 0 or not has_bucket(policy) then return false end
    change.note_expiry(account, policy)
    if account.expires > before then return true end
    account.expires = before
    return false
  end

  -- Records a clock reading, and brings the meters along.
  function change.bring_to(account, policy, now)
    local as_of = engine.account.as_of(account)
    account.seen = max(account.seen, now)
    local to = engine.account.as_of(account)
    for i, limit in ipairs(policy.limits) do engine.meter.advance(limit, account.meters[i], as_of, to) end
  end
  return change
end
