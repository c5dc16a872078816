-- Takes with an id, previews, `begin` and `peek`. Mirrors apply.rs; what happens to a permit afterwards is in
-- correct.lua.

parts.actions = function()
  local actions = {}

  local CALL_ID_REMEMBERED = 600000000
  local CHARGES_PER_TAKE_MAX = 16

  -- What is wrong with the charges, if anything is.
  function actions.refuse_charges(charges)
    local count = #charges
    if count == 0 or count > CHARGES_PER_TAKE_MAX then return { "refused", "party_count" } end
    for i = 1, count - 1 do
      for j = i + 1, count do
        if charges[i].line == charges[j].line then return { "refused", "same_party", i - 1 } end
      end
    end
  end

  -- A grant that took something, not one that was repeated.
  local function changes(decision)
    return decision[1] == "granted" and not decision[7]
  end

  function actions.restore(accounts, before)
    for i, account in ipairs(before) do accounts[i] = account end
  end

  -- A take with an id, which counts once.
  local function take_once(charges, accounts, terms, now)
    local keeper = accounts[terms.keeper]
    local known_at, calls = engine.change.newest(accounts, now), engine.memory.calls(keeper)
    local known = engine.memory.call(calls, terms.call, known_at)
    if known then
      local permit = known[3]
      if known[2] ~= terms.asked then return { "refused", "id_reused" } end
      local held = engine.correct.holds_all_slots(charges, accounts, permit, known_at, false)
      if not held then return { "refused", "call_over" } end
      local readings = terms.readings and engine.readings.of_all(charges, accounts, known_at)
      return { "granted", permit, known[4], known_at, known[5], known[6], true, false, known[7], readings or false }
    end
    if not engine.memory.has_room_for_call(calls, known_at) then return { "refused", "too_many_ids" } end
    local decision = engine.decide.decide(charges, accounts, terms, now)
    if decision[1] == "granted" then
      local _, permit, granted_at, at_now, at, good_until, _, _, denying = unpack(decision)
      local policy = charges[terms.keeper].policy
      local expires = plus(at_now, CALL_ID_REMEMBERED)
      local call = { terms.call, terms.asked, permit, granted_at, at, good_until, denying, expires }
      engine.change.bring_to(keeper, policy, at_now)
      engine.memory.remember_call(keeper, call, at_now)
      engine.change.note_expiry(keeper, policy)
    end
    return decision
  end

  -- Limit::still_good: whether a permit may still begin at `now`: its window runs, less the edge; its slot is
  -- held.
  local function meter_still_good(limit, meter, booking, now, edge)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" then
      local _, ends = engine.window.around(limit, booking.at)
      return now < engine.window.good_until(limit, ends, edge)
    elseif kind == "first" then
      return now < meter[2] and booking.at < meter[2] and meter[2] <= plus(booking.at, limit.period)
    end
    return not engine.kind.has_slots(limit) or engine.meter.holds_slot(limit, meter, booking.permit, now)
  end

  -- A permit that holds slots may have kept them beyond the time it was granted for; then only its windows end it.
  local function still_good(charges, accounts, booking, now)
    local holds_slots = false
    for index, charge in ipairs(charges) do
      holds_slots = holds_slots or charge.policy.holds_slots
      for i, limit in ipairs(charge.policy.limits) do
        local meter, edge = accounts[index].meters[i], charge.policy.edge
        if charge.charges[i] > 0 and not meter_still_good(limit, meter, booking, now, edge) then return false end
      end
    end
    return holds_slots
  end

  -- Free while the permit is good. A vendor's hold delays it. A permit that has expired, or was granted under a rate
  -- that was cut since, takes again at the back of the queue, once however often `begin` is
  -- repeated.
  function actions.begin(charges, accounts, operation, now)
    local booking = operation.booking
    now = engine.change.newest(accounts, now)
    if now < booking.at then return { "early", booking.at - now }, false end
    local held_until = 0
    for _, account in ipairs(accounts) do held_until = max(held_until, engine.account.held_until(account)) end
    if now < held_until then return { "early", held_until - now }, false end
    local good = now < booking.good_until or still_good(charges, accounts, booking, now)
    if good and not engine.adaptive.cut_since(charges, accounts, booking) then return { "now" }, false end
    -- The slots it held are free for the second take, if that is granted.
    local before = clone(accounts)
    engine.correct.free_slots(charges, accounts, booking.permit)
    local decision = take_once(charges, accounts, operation, now)
    local changed = changes(decision)
    if not changed then actions.restore(accounts, before) end
    if decision[1] == "refused" then return decision, false end
    return { "again", decision }, changed
  end

  function actions.take(charges, accounts, operation, now)
    local decision = take_once(charges, accounts, operation, now)
    return decision, changes(decision)
  end

  function actions.preview(charges, accounts, operation, now)
    local previewed = clone(accounts)
    if operation.call then return take_once(charges, previewed, operation, now), false end
    return engine.decide.decide(charges, previewed, operation, now), false
  end

  function actions.peek(charges, accounts, _, now)
    return { "peeked", engine.readings.of_all(charges, accounts, engine.change.newest(accounts, now)) }, false
  end
  return actions
end
