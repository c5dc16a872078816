-- Takes with an id, previews, `begin` and `peek`. Beside apply.rs; what happens to a permit afterwards is in
-- correct.lua.

parts.verbs = function()
  local verbs = {}

  local CALL_ID_REMEMBERED = 600000000
  local PARTIES_PER_TAKE_MAX = 16

  -- What is wrong with the parties, if anything is.
  function verbs.refuse_parties(parties)
    local count = #parties
    if count == 0 or count > PARTIES_PER_TAKE_MAX then return { "refused", "party_count" } end
    for i = 1, count - 1 do
      for j = i + 1, count do
        if parties[i].line == parties[j].line then return { "refused", "same_party", i - 1 } end
      end
    end
  end

  -- A grant that took something, not one that was repeated.
  local function changes(decision)
    return decision[1] == "granted" and not decision[7]
  end

  function verbs.restore(lines, before)
    for i, line in ipairs(before) do lines[i] = line end
  end

  -- A take with an id, which counts once.
  local function take_once(parties, lines, terms, now)
    local keeper = lines[terms.keeper]
    local known_at, calls = engine.change.newest(lines, now), engine.memory.calls(keeper)
    local known = engine.memory.call(calls, terms.call, known_at)
    if known then
      local permit = known[3]
      if known[2] ~= terms.asked then return { "refused", "id_reused" } end
      local held = engine.correct.holds_all_slots(parties, lines, permit, known_at, false)
      if not held then return { "refused", "call_over" } end
      local readings = terms.readings and engine.aside.read_all(parties, lines, known_at)
      return { "granted", permit, known[4], known_at, known[5], known[6], true, false, known[7], readings or false }
    end
    if not engine.memory.has_room_for_call(calls, known_at) then return { "refused", "too_many_ids" } end
    local decision = engine.decide.decide(parties, lines, terms, now)
    if decision[1] == "granted" then
      local _, permit, granted_at, at_now, at, good_until, _, _, denying = unpack(decision)
      local policy = parties[terms.keeper].policy
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
  local function still_good(parties, lines, booking, now)
    local holds_slots = false
    for index, party in ipairs(parties) do
      holds_slots = holds_slots or party.policy.holds_slots
      for i, limit in ipairs(party.policy.limits) do
        local meter, edge = lines[index].meters[i], party.policy.edge
        if party.charges[i] > 0 and not meter_still_good(limit, meter, booking, now, edge) then return false end
      end
    end
    return holds_slots
  end

  -- Free while the permit is good; too late, it takes again at the back of the line, once however often it is
  -- repeated.
  function verbs.begin(parties, lines, operation, now)
    local booking = operation.booking
    now = engine.change.newest(lines, now)
    if now < booking.at then return { "early", booking.at - now }, false end
    if now < booking.good_until or still_good(parties, lines, booking, now) then return { "now" }, false end
    -- It must not stand in its own way: the slots it held are free for it, if it is granted.
    local before = clone(lines)
    engine.correct.free_slots(parties, lines, booking.permit)
    local decision = take_once(parties, lines, operation, now)
    local changed = changes(decision)
    if not changed then verbs.restore(lines, before) end
    if decision[1] == "refused" then return decision, false end
    return { "again", decision }, changed
  end

  function verbs.take(parties, lines, operation, now)
    local decision = take_once(parties, lines, operation, now)
    return decision, changes(decision)
  end

  function verbs.preview(parties, lines, operation, now)
    local foreseen = clone(lines)
    if operation.call then return take_once(parties, foreseen, operation, now), false end
    return engine.decide.decide(parties, foreseen, operation, now), false
  end

  function verbs.peek(parties, lines, _, now)
    return { "peeked", engine.aside.read_all(parties, lines, engine.change.newest(lines, now)) }, false
  end
  return verbs
end
