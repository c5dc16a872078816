-- Decides a take. Mirrors decide.rs.
--
-- A charge is what the caller sent: its policy, and the amount for each of its limits (`charge.charges` on the wire).
-- `accounts[i]` is the account of
-- `charges[i]`. Answers are sent back by position; indices in them begin at 0:
--   {"granted", permit, granted_at, now, at, good_until, repeated, over, would_deny, readings}
--   {"denied", now, retry_at, charge, limit, readings, held}
--   {"refused", why, ...}

parts.decide = function()
  local decide = {}

  local SEARCH_STEPS_MAX = 1024

  -- Debits every meter of the account at `at`, after bringing all of them there, also those that are charged nothing.
  -- Answers until when the permit may begin, and whether a meter holds more than its limit after all.
  function decide.debit(charge, account, permit, at, now)
    local policy, amounts, meters = charge.policy, charge.charges, account.meters
    local limits, edge, as_of = policy.limits, policy.edge, engine.account.as_of(account)
    local expires, good_until, over = 0, MAX, false
    for i = 1, #limits do
      local amount = amounts[i]
      local until_then, as_new_at, holds = engine.limit.debit(limits[i], meters[i], amount, as_of, at, edge, permit)
      if as_new_at > expires then expires = as_new_at end
      if amount > 0 then
        if until_then < good_until then good_until = until_then end
        over = over or not holds
      end
    end
    if account.extra and account.extra.caps then engine.feedback.lower_caps(charge, account.extra, at) end
    engine.account.changed(account, now, expires, policy)
    return good_until, over
  end

  -- Each limit of an account that has no room yet pushes the moment on.
  function decide.push_on(found, index, charge, account)
    local limits, amounts, meters = charge.policy.limits, charge.charges, account.meters
    local as_of, edge = engine.account.as_of(account), charge.policy.edge
    local caps = account.extra and account.extra.caps
    for i = 1, #limits do
      local amount = amounts[i]
      if amount > 0 then
        local at = engine.limit.earliest(limits[i], meters[i], amount, as_of, found.at, edge)
        if caps then at = engine.feedback.earliest(account.extra, limits[i], amount, at) end
        if at > found.at then found.at, found.charge, found.limit, found.held = at, index, i, false end
      end
    end
  end

  -- The earliest moment from every frontier on at which all limits have room, and the limit that made it wait. If
  -- the search was given up, it is not settled: only the earliest moment worth asking again.
  local function earliest_for_all(charges, accounts, now)
    local found = { at = now, charge = 1, limit = 1, held = false, settled = false }
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      if account.extra and not charge.policy.shadow and engine.slow_path.charges_anything(charge) then
        engine.slow_path.not_before(found, index, account)
      end
    end
    for _ = 1, SEARCH_STEPS_MAX do
      local before = found.at
      for index, charge in ipairs(charges) do
        if not charge.policy.shadow then decide.push_on(found, index, charge, accounts[index]) end
      end
      if found.at == before then
        found.settled = true
        break
      end
    end
    return found
  end

  -- The limit that could never grant its charge, if there is one.
  function decide.above_limit(charge)
    for i, limit in ipairs(charge.policy.limits) do
      if charge.charges[i] > limit.capacity then return i end
    end
  end

  -- Decides a take: all costs of all charges, or nothing. On a grant the accounts are those afterwards; else
  -- untouched.
  function decide.decide(charges, accounts, terms, now)
    for index, charge in ipairs(charges) do
      now = max(now, accounts[index].seen)
      local limit = not charge.policy.shadow and decide.above_limit(charge)
      if limit then return { "refused", "above_limit", index - 1, limit - 1 } end
    end
    local found, permit = earliest_for_all(charges, accounts, now), terms.permit
    if found.at > now then
      local wait = found.settled and engine.slow_path.longest_wait(charges, terms.max_wait)
      if not wait or found.at - now > wait then
        local readings = terms.readings and engine.readings.of_all(charges, accounts, now)
        return { "denied", now, found.at, found.charge - 1, found.limit - 1, readings or false, found.held }
      end
    end
    local good_until, over, denying = MAX, false, 0
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      if charge.policy.shadow then
        if engine.slow_path.would_deny(index, charge, account, permit, now) then denying = denying + 2 ^ (index - 1) end
      else
        local until_then, too_much
        if found.at > now then
          until_then, too_much = engine.slow_path.book(charge, account, permit, found, now)
        else
          until_then, too_much = decide.debit(charge, account, permit, now, now)
        end
        good_until, over = min(good_until, until_then), over or too_much
      end
    end
    local readings = terms.readings and engine.readings.of_all(charges, accounts, now)
    return { "granted", permit, now, now, found.at, good_until, false, over, denying, readings or false }
  end
  return decide
end
