-- One operation on the lines it names: answers its outcome, and whether the lines must be kept. Beside apply.rs.

parts.apply = function()
  local apply = {}

  -- Applies one operation. Lines whose policy has changed since they were written are rearranged, and kept so only
  -- if the operation changes them anyway.
  function apply.apply(operation, lines, now)
    local parties, before = operation.parties, nil
    if #parties ~= 1 then
      local refused = engine.verbs.refuse_parties(parties)
      if refused then return refused, false end
    end
    for index, party in ipairs(parties) do
      if not engine.line.fits(lines[index], party.policy) then
        before = before or clone(lines)
        engine.change.refit(lines[index], party.policy)
      end
    end
    local outcome, changed
    if operation.verb == "take" and not operation.call then
      outcome = engine.decide.decide(parties, lines, operation, now)
      changed = outcome[1] == "granted"
    else
      local verb = engine.verbs[operation.verb] or engine.correct[operation.verb]
      outcome, changed = verb(parties, lines, operation, now)
    end
    if before and not changed then engine.verbs.restore(lines, before) end
    return outcome, changed
  end
  return apply
end
