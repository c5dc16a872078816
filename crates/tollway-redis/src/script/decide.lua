-- The heart: decides a take. Beside decide.rs.
--
-- A party is what the caller sent: its policy, and the charge on each of its limits. `lines[i]` is the line of
-- `parties[i]`. Answers are what is sent back, by position; indices in them begin at 0:
--   {"granted", permit, granted_at, now, at, good_until, repeated, over, would_deny, readings}
--   {"denied", now, retry_at, party, limit, readings}
--   {"refused", why, ...}

parts.decide = function()
  local decide = {}

  local SEARCH_STEPS_MAX = 1024

  -- Debits every meter of the line at `at`, after bringing all of them there, also those that are charged nothing.
  -- Answers until when the permit may begin, and whether a meter holds more than its limit after all.
  function decide.debit(party, line, permit, at, now)
    local policy, charges, meters = party.policy, party.charges, line.meters
    local limits, edge, as_of = policy.limits, policy.edge, engine.line.as_of(line)
    local expires, good_until, over = 0, MAX, false
    for i = 1, #limits do
      local charge = charges[i]
      local until_then, as_new_at, holds = engine.limit.debit(limits[i], meters[i], charge, as_of, at, edge, permit)
      if as_new_at > expires then expires = as_new_at end
      if charge > 0 then
        if until_then < good_until then good_until = until_then end
        over = over or not holds
      end
    end
    engine.line.changed(line, now, expires, policy)
    return good_until, over
  end

  -- Each limit of a line that has no room yet pushes the moment on.
  function decide.push_on(found, index, party, line)
    local limits, charges, meters = party.policy.limits, party.charges, line.meters
    local as_of, edge = engine.line.as_of(line), party.policy.edge
    for i = 1, #limits do
      local charge = charges[i]
      if charge > 0 then
        local at = engine.limit.earliest(limits[i], meters[i], charge, as_of, found.at, edge)
        if at > found.at then found.at, found.party, found.limit = at, index, i end
      end
    end
  end

  -- The earliest moment from every frontier on at which all limits have room, and the limit that made it wait. If
  -- the search was given up, it is not settled: only the earliest moment worth asking again.
  local function earliest_for_all(parties, lines, now)
    local found = { at = now, party = 1, limit = 1, settled = false }
    for index, party in ipairs(parties) do
      local frontier = engine.line.frontier(lines[index])
      if frontier > found.at and not party.policy.shadow and engine.aside.charges_anything(party) then
        found.at, found.party, found.limit = frontier, index, lines[index].extra.frontier_limit or 1
      end
    end
    for _ = 1, SEARCH_STEPS_MAX do
      local before = found.at
      for index, party in ipairs(parties) do
        if not party.policy.shadow then decide.push_on(found, index, party, lines[index]) end
      end
      if found.at == before then
        found.settled = true
        break
      end
    end
    return found
  end

  -- The limit that could never grant its charge, if there is one.
  function decide.above_limit(party)
    for i, limit in ipairs(party.policy.limits) do
      if party.charges[i] > limit.capacity then return i end
    end
  end

  -- Decides a take: all costs of all parties, or nothing. On a grant the lines are those afterwards; else
  -- untouched (I2, I3).
  function decide.decide(parties, lines, terms, now)
    for index, party in ipairs(parties) do
      now = max(now, lines[index].seen)
      local limit = not party.policy.shadow and decide.above_limit(party)
      if limit then return { "refused", "above_limit", index - 1, limit - 1 } end
    end
    local found, permit = earliest_for_all(parties, lines, now), terms.permit
    if found.at > now then
      local wait = found.settled and engine.aside.longest_wait(parties, terms.max_wait)
      if not wait or found.at - now > wait then
        local readings = terms.readings and engine.aside.read_all(parties, lines, now)
        return { "denied", now, found.at, found.party - 1, found.limit - 1, readings or false }
      end
    end
    local good_until, over, denying = MAX, false, 0
    for index, party in ipairs(parties) do
      local line = lines[index]
      if party.policy.shadow then
        if engine.aside.would_deny(index, party, line, permit, now) then denying = denying + 2 ^ (index - 1) end
      else
        local until_then, too_much
        if found.at > now then
          until_then, too_much = engine.aside.book(party, line, permit, found, now)
        else
          until_then, too_much = decide.debit(party, line, permit, now, now)
        end
        good_until, over = min(good_until, until_then), over or too_much
      end
    end
    local readings = terms.readings and engine.aside.read_all(parties, lines, now)
    return { "granted", permit, now, now, found.at, good_until, false, over, denying, readings or false }
  end
  return decide
end
