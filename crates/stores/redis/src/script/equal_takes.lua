-- Equal takes of one account in one call, the common case of a hot subject. They are granted in one step, as one take of
-- their total cost, if all fit now; the account ends up the same as after single takes.
--
-- Returns {"together", granted_at, now, at, good_until, over} for all of them, then the readings after the last one if they
-- were asked for; or {"apart", outcomes} with the outcome of each. Those after the first that was not granted are not in it,
-- for theirs are the same: nothing has changed.

parts.equal_takes = function()
  local equal_takes = {}

  -- What all of them cost; nothing if that is more than can be counted.
  local function total_amounts(amounts, count)
    local all = {}
    for i, amount in ipairs(amounts) do
      if amount * count > MAX then return nil end
      all[i] = amount * count
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

  function equal_takes.apply(operation, own, now)
    local charge, permits, changed = operation.parties[1], operation.permits, false
    local amounts = total_amounts(charge.charges, #permits)
    if amounts then
      local all = {
        verb = "take",
        permit = permits[1],
        max_wait = 0,
        readings = operation.readings,
        parties = { { policy = charge.policy, charges = amounts } },
      }
      local outcome
      outcome, changed = engine.apply.apply(all, own, now)
      if outcome[1] == "granted" then
        return { "together", outcome[3], outcome[4], outcome[5], outcome[6], outcome[8], outcome[10] or nil }, true
      end
    end
    return one_by_one(operation, own, now, changed)
  end
  return equal_takes
end
