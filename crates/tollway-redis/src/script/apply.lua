-- One operation on the lines it names: answers its outcome, and whether the lines must be kept. Beside apply.rs.

parts.apply = function()
  local apply = {}

  local PARTIES_PER_TAKE_MAX = 16

  -- What is wrong with the parties, if anything is.
  local function refuse_parties(parties)
    local count = #parties
    if count == 0 or count > PARTIES_PER_TAKE_MAX then return { "refused", "party_count" } end
    for i = 1, count - 1 do
      for j = i + 1, count do
        if parties[i].line == parties[j].line then return { "refused", "same_party", i - 1 } end
      end
    end
  end

  -- A grant that took something, not one that was repeated.
  function apply.changes(decision)
    return decision[1] == "granted" and not decision[7]
  end

  function apply.restore(lines, before)
    for i, line in ipairs(before) do lines[i] = line end
  end

  -- Applies one operation. Lines whose policy has changed since they were written are rearranged, and kept so only
  -- if the operation changes them anyway.
  function apply.apply(operation, lines, now)
    local parties, before = operation.parties, nil
    local refused = refuse_parties(parties)
    if refused then return refused, false end
    for index, party in ipairs(parties) do
      if not engine.line.fits(lines[index], party.policy) then
        before = before or clone(lines)
        engine.change.refit(lines[index], party.policy)
      end
    end
    local outcome, changed
    if operation.verb == "take" and not operation.call then
      outcome = engine.decide.decide(parties, lines, operation, now)
      changed = apply.changes(outcome)
    else
      local verb = engine.verbs[operation.verb] or engine.correct[operation.verb]
      outcome, changed = verb(parties, lines, operation, now)
    end
    if before and not changed then apply.restore(lines, before) end
    return outcome, changed
  end
  return apply
end
