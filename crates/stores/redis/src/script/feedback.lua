-- What a vendor's answers say about an account: a hold, what is left of limits, and a rate. Mirrors feedback.rs.
-- Caps are {identity, left, until} each. Answers
--   {"learned", now, held_until or 0, written, {rate, burst, available, grants, version, cut, cut_at, controller} or false}

parts.feedback = function()
  local feedback = {}

  local SAME_END = 1000000
  local CAP_MAX = 2678400000000
  local CONTROLLER_BYTES_MAX = 1024
  local RATE_MAX, AMOUNT_MAX = 1000000000000, 1000000000000000

  local function hold(account, length, now)
    local until_then = plus(now, length)
    if until_then <= max(now, engine.account.held_until(account)) then return false end
    engine.change.extra(account).held_until = until_then
    return true
  end

  local function set_cap(account, identity, cap)
    local extra, kept = engine.change.extra(account), {}
    for _, known in ipairs(extra.caps or {}) do
      if known[1] ~= identity then kept[#kept + 1] = known end
    end
    kept[#kept + 1] = cap
    extra.caps = #kept > 0 and kept or nil
    engine.change.drop_empty_extra(account)
  end

  local function find_cap(account, identity, now)
    for _, cap in ipairs(account.extra and account.extra.caps or {}) do
      if cap[1] == identity and cap[3] > now then return cap end
    end
  end

  local function cap(limit, account, units, lasts, now)
    local until_then = plus(now, min(lasts, CAP_MAX))
    if until_then <= now then return false end
    local known = find_cap(account, limit.identity, now)
    local new = { limit.identity, min(units, MAX), until_then }
    if known and until_then <= plus(known[3], SAME_END) then
      if known[3] > plus(until_then, SAME_END) or units >= known[2] then return false end
      new[3] = known[3]
    end
    set_cap(account, limit.identity, new)
    return true
  end

  -- Writes a new rate, if the account has the version it was computed from.
  local function change_rate(policy, account, change, now)
    for i, limit in ipairs(policy.limits) do
      local meter = account.meters[i]
      if limit.kind == "adaptive" and meter[7] == change.version then
        engine.change.bring_to(account, policy, now)
        meter[7] = meter[7] + 1
        meter[4], meter[5] = max(1, min(change.rate, RATE_MAX)), max(1, min(change.burst, AMOUNT_MAX))
        meter[10] = change.controller
        if change.cut then meter[8], meter[9] = meter[8] + 1, now end
        local new
        if change.left and change.lasts > 0 then
          new = { limit.identity, min(change.left, MAX), plus(now, min(change.lasts, CAP_MAX)) }
        end
        set_cap(account, limit.identity, new)
        return true
      end
    end
    return false
  end

  local function read(policy, account, now, written)
    local held_until, as_of = engine.account.held_until(account), engine.account.as_of(account)
    local rate = false
    for i, limit in ipairs(policy.limits) do
      if limit.kind == "adaptive" and not rate then
        local meter = clone(account.meters[i])
        engine.adaptive.advance(limit, meter, since(max(now, as_of), as_of))
        local available = since(meter[5], engine.bucket.whole(meter[2], meter[3]))
        rate =
          { engine.adaptive.rate(limit, meter), meter[5], available, meter[6], meter[7], meter[8], meter[9], meter[10] }
      end
    end
    return { "learned", now, held_until > now and held_until or 0, written, rate }
  end

  function feedback.feedback(charges, accounts, operation, now)
    if #charges ~= 1 then return { "refused", "party_count" }, false end
    local bytes = operation.rate and #operation.rate.controller or 0
    if bytes > CONTROLLER_BYTES_MAX then return { "refused", "controller_too_long", bytes }, false end
    local policy, account = charges[1].policy, accounts[1]
    now = max(now, account.seen)
    local changed = hold(account, operation.hold, now)
    for _, left in ipairs(operation.left) do
      changed = cap(policy.limits[left[1]], account, left[2], left[3], now) or changed
    end
    local written = operation.rate and change_rate(policy, account, operation.rate, now) or false
    if changed or written then
      engine.change.bring_to(account, policy, now)
      engine.change.drop_past(account)
      engine.change.note_expiry(account, policy)
    end
    return read(policy, account, now, written), changed or written
  end

  -- Takes a grant at `at` from what the vendor says is left.
  function feedback.lower_caps(charge, extra, at)
    for _, known in ipairs(extra.caps) do
      for i, limit in ipairs(charge.policy.limits) do
        if limit.identity == known[1] and at < known[3] then known[2] = since(known[2], charge.charges[i]) end
      end
    end
  end

  -- The time from `at` on at which `amount` fits under what is left of the limit.
  function feedback.earliest(extra, limit, amount, at)
    for _, known in ipairs(extra.caps) do
      if known[1] == limit.identity and at < known[3] and amount > known[2] then return known[3] end
    end
    return at
  end
  return feedback
end
