-- One operation on the lines it names: answers its outcome, and whether the lines must be kept. Beside apply.rs.

parts.apply = function()
  local apply = {}

  -- A denial changes no meter. But a line whose rate was lowered since must not be forgotten as early as it says (I6).
  local function keep_longer(parties, lines)
    local longer = false
    for index, party in ipairs(parties) do
      if engine.change.keep_longer(lines[index], party.policy) then longer = true end
    end
    return longer
  end

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
    local denied = operation.verb == "take" and outcome[1] == "denied"
    if denied then changed = keep_longer(parties, lines) end
    if before and (denied or not changed) then
      -- A denial may have made them live longer, and nothing else.
      for index, line in ipairs(before) do line.expires = max(line.expires, lines[index].expires) end
      engine.verbs.restore(lines, before)
    end
    return outcome, changed
  end
  return apply
end
