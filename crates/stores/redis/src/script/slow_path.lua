-- The slow path of a take: bookings, shadows. Mirrors decide.rs.

parts.slow_path = function()
  local slow_path = {}

  function slow_path.charges_anything(charge)
    for _, amount in ipairs(charge.charges) do
      if amount > 0 then return true end
    end
    return false
  end

  -- A take may neither overtake the queue nor begin while the vendor holds the account.
  function slow_path.not_before(found, index, account)
    local frontier, held_until = engine.account.frontier(account), engine.account.held_until(account)
    if frontier > found.at then
      found.at, found.charge, found.limit, found.held = frontier, index, account.extra.frontier_limit or 1, false
    end
    if held_until > found.at then found.at, found.charge, found.limit, found.held = held_until, index, 1, true end
  end

  -- Only a take under one enforced policy can be queued; that policy caps its wait.
  function slow_path.longest_wait(charges, max_wait)
    local enforced
    for _, charge in ipairs(charges) do
      if not charge.policy.shadow then
        if enforced then return nil end
        enforced = charge.policy
      end
    end
    return enforced and enforced.may_book and min(max_wait, enforced.max_wait) or nil
  end

  -- Books a later time: debits the account there and keeps the state before it for one undo.
  function slow_path.book(charge, account, permit, found, now)
    local extra = account.extra or {}
    local undo = {
      permit = permit,
      meters = clone(account.meters),
      as_of = engine.account.as_of(account),
      frontier = extra.frontier,
      frontier_limit = extra.frontier_limit,
    }
    local good_until, over = engine.decide.debit(charge, account, permit, found.at, now)
    extra = engine.change.extra(account)
    extra.frontier, extra.frontier_limit, extra.undo = found.at, found.limit, undo
    engine.change.note_expiry(account, charge.policy)
    return good_until, over
  end

  -- Decides a shadow by itself, now. If it would grant, it is debited; if not, that is reported, and its account's
  -- expiry is extended as after any denial.
  function slow_path.would_deny(index, charge, account, permit, now)
    local found = { at = now }
    slow_path.not_before(found, index, account)
    engine.decide.push_on(found, index, charge, account)
    if found.at > now or engine.decide.above_limit(charge) then
      engine.change.keep_longer(account, charge.policy)
      return true
    end
    engine.decide.debit(charge, account, permit, now, now)
    return false
  end
  return slow_path
end
