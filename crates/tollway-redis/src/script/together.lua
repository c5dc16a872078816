-- Equal takes of one line that came together: most of what a hot subject is asked. They are granted in one step, as one
-- take of all they cost, if all of them can be had now; that leaves the line as one after the other would.
--
-- Answers {"together", granted_at, now, at, good_until, over} for all of them, or {"apart", outcomes} with the outcome of
-- each; those after the first that was not granted are not in it, for theirs are the same: nothing has changed.

parts.together = function()
  local together = {}

  -- What all of them cost; nothing if that is more than can be counted.
  local function charges_of_all(charges, count)
    local all = {}
    for i, charge in ipairs(charges) do
      if charge * count > MAX then return nil end
      all[i] = charge * count
    end
    return all
  end

  local function one_by_one(operation, own, now, changed)
    local outcomes = {}
    for number, permit in ipairs(operation.permits) do
      operation.permit = permit
      local outcome, has_changed = engine.apply.apply(operation, own, now)
      outcomes[number], changed = outcome, changed or has_changed
      if outcome[1] ~= "granted" then break end
    end
    return { "apart", outcomes }, changed
  end

  function together.apply(operation, own, now)
    local party, permits, changed = operation.parties[1], operation.permits, false
    local charges = charges_of_all(party.charges, #permits)
    if charges then
      local all = { verb = "take", permit = permits[1], max_wait = 0, parties = { { policy = party.policy, charges = charges } } }
      local outcome
      outcome, changed = engine.apply.apply(all, own, now)
      if outcome[1] == "granted" then
        return { "together", outcome[3], outcome[4], outcome[5], outcome[6], outcome[8] }, true
      end
    end
    return one_by_one(operation, own, now, changed)
  end
  return together
end
