-- Applies one operation to its accounts: returns its outcome, and whether the accounts must be stored. Mirrors apply.rs.

parts.apply = function()
  local apply = {}

  -- A denial changes no meter. But an account whose rate was lowered since must not expire as early as stored.
  local function keep_longer(charges, accounts)
    local longer = false
    for index, charge in ipairs(charges) do
      if engine.change.keep_longer(accounts[index], charge.policy) then longer = true end
    end
    return longer
  end

  -- Applies one operation. Lines whose policy has changed since they were written are rearranged, and kept so only
  -- if the operation changes them anyway.
  function apply.apply(operation, accounts, now)
    local charges, before = operation.parties, nil
    if #charges ~= 1 then
      local refused = engine.actions.refuse_charges(charges)
      if refused then return refused, false end
    end
    for index, charge in ipairs(charges) do
      if not engine.account.fits(accounts[index], charge.policy) then
        before = before or clone(accounts)
        engine.change.refit(accounts[index], charge.policy)
      end
    end
    local outcome, changed
    if operation.verb == "take" and not operation.call then
      if #charges == 1 then outcome = engine.plain_take.take(charges[1], accounts[1], operation, now) end
      outcome = outcome or engine.decide.decide(charges, accounts, operation, now)
      changed = outcome[1] == "granted"
    else
      local action = engine.actions[operation.verb] or engine.correct[operation.verb] or engine.feedback[operation.verb]
      outcome, changed = action(charges, accounts, operation, now)
    end
    local denied = operation.verb == "take" and outcome[1] == "denied"
    if denied then changed = keep_longer(charges, accounts) end
    if before and (denied or not changed) then
      -- A denial may have extended their expiry, and changed nothing else.
      for index, account in ipairs(before) do account.expires = max(account.expires, accounts[index].expires) end
      engine.actions.restore(accounts, before)
    end
    return outcome, changed
  end
  return apply
end
