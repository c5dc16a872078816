-- What most takes do not need: a place in line, shadows, readings. Beside decide.rs.

parts.aside = function()
  local aside = {}

  function aside.charges_anything(party)
    for _, charge in ipairs(party.charges) do
      if charge > 0 then return true end
    end
    return false
  end

  -- Only a take under one enforced policy has a line to stand in; and it waits no longer than that allows.
  function aside.longest_wait(parties, max_wait)
    local enforced
    for _, party in ipairs(parties) do
      if not party.policy.shadow then
        if enforced then return nil end
        enforced = party.policy
      end
    end
    return enforced and enforced.may_book and min(max_wait, enforced.max_wait) or nil
  end

  -- Takes a place in line: the debit at a later time, with the state before it kept for one undo.
  function aside.book(party, line, permit, found, now)
    local extra = line.extra or {}
    local undo = {
      permit = permit,
      meters = clone(line.meters),
      as_of = engine.line.as_of(line),
      frontier = extra.frontier,
      frontier_limit = extra.frontier_limit,
    }
    local good_until, over = engine.decide.debit(party, line, permit, found.at, now)
    extra = engine.change.extra(line)
    extra.frontier, extra.frontier_limit, extra.undo = found.at, found.limit, undo
    engine.change.note_expiry(line, party.policy)
    return good_until, over
  end

  -- Judges a shadow by itself, now. One that would grant is debited; one that would not is reported, and its line
  -- lives on as after any denial (I6).
  function aside.would_deny(index, party, line, permit, now)
    local found = { at = max(now, engine.line.frontier(line)) }
    engine.decide.push_on(found, index, party, line)
    if found.at > now or engine.decide.above_limit(party) then
      engine.change.keep_longer(line, party.policy)
      return true
    end
    engine.decide.debit(party, line, permit, now, now)
    return false
  end

  -- What every limit of every party shows now, or at its frontier if that lies ahead: used, resets_at, as_of of
  -- each.
  function aside.read_all(parties, lines, now)
    local readings, n = {}, 0
    for index, party in ipairs(parties) do
      local line = lines[index]
      local as_of = engine.line.as_of(line)
      local at = max(now, as_of)
      for i, limit in ipairs(party.policy.limits) do
        local meter = line.meters[i]
        readings[n + 1] = engine.meter.used(limit, meter, as_of, at)
        readings[n + 2] = engine.meter.resets_at(limit, meter, as_of, at)
        readings[n + 3] = at
        n = n + 3
      end
    end
    return readings
  end
  return aside
end
