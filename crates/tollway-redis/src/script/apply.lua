-- One operation on the lines it names: answers its outcome, and whether the lines must be kept. Beside apply.rs.

parts.apply = function()
  local apply = {}

  local function has_bucket(policy)
    for _, limit in ipairs(policy.limits) do
      if limit.kind == "bucket" then return true end
    end
    return false
  end

  -- A denial changes no meter. But a line whose rate was lowered since must not be forgotten as early as it says (I6).
  local function keep_longer(parties, lines)
    local longer = false
    for index, party in ipairs(parties) do
      local line = lines[index]
      local before = line.expires
      if before > 0 and has_bucket(party.policy) then
        engine.change.note_expiry(line, party.policy)
        longer = longer or line.expires > before
        if line.expires < before then line.expires = before end
      end
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
