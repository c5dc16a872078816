-- What happens to a permit after its grant: settle, return, done, renew. Also the reset of an account. Mirrors
-- correct.rs.

parts.correct = function()
  local correct = {}

  local REFUND_REMEMBERED = 600000000
  local HOLD_DAILY_MAX = 90000000000

  local function memory_of(limit)
    local kind = limit.kind
    if kind == "bucket" then return limit.refill_time end
    if kind == "adaptive" then return HOLD_DAILY_MAX end
    if kind == "sliding" then return 2 * limit.period end
    if kind == "every" or kind == "calendar" or kind == "first" or kind == "slots" then return limit.period end
    return engine.kind.unknown(limit)
  end

  -- Limit::longest_memory, of all limits of the charges: how long a take may matter at the most.
  local function longest_memory(charges)
    local longest = 0
    for _, charge in ipairs(charges) do
      for _, limit in ipairs(charge.policy.limits) do
        longest = max(longest, memory_of(limit))
      end
    end
    return longest
  end

  -- Limit::settle: puts right what a permit took from a meter that is as of `as_of`; says whether it still could.
  local function settle_meter(limit, meter, booked_at, reserved, actual, as_of)
    local kind = limit.kind
    if kind == "adaptive" then
      return engine.adaptive.settle(limit, meter, booked_at, reserved, actual, as_of)
    elseif kind == "bucket" then
      local young = engine.bucket.refilled_in(limit, since(as_of, booked_at)) <= limit.capacity
      meter[2] = min(meter[2] + since(actual, reserved), MAX)
      if young then meter[2], meter[3] = engine.bucket.credit(meter[2], meter[3], since(reserved, actual)) end
      return young or actual >= reserved
    elseif kind == "sliding" then
      local here = meter[2] <= booked_at and booked_at < plus(meter[2], limit.period)
      if here then meter[4] = min(since(meter[4], reserved) + actual, MAX) end
      return here
    end
    local here
    if kind == "first" then
      here = booked_at < meter[2] and meter[2] <= plus(booked_at, limit.period)
    elseif kind == "every" or kind == "calendar" then
      local _, ends = engine.window.around(limit, booked_at)
      here = ends == meter[2]
    else
      engine.kind.unknown(limit)
    end
    if here then meter[3] = min(since(meter[3], reserved) + actual, MAX) end
    return here
  end

  -- Corrects every limit of one account; `actual` has no entry for a limit whose units stay spent.
  local function correct_account(charge, account, booking, actual, now)
    local as_of, whole = engine.account.as_of(account), true
    local to = max(now, as_of)
    for i, limit in ipairs(charge.policy.limits) do
      local meter, reserved = account.meters[i], charge.charges[i]
      engine.meter.advance(limit, meter, as_of, to)
      engine.meter.free(limit, meter, booking.permit)
      if not engine.kind.has_slots(limit) then
        if not actual[i] then
          whole = whole and reserved == 0
        elseif actual[i] ~= reserved then
          local right = settle_meter(limit, meter, booking.at, reserved, actual[i], to)
          whole = whole and right
        end
      end
    end
    account.seen = now
    engine.change.drop_past(account)
    engine.change.note_expiry(account, charge.policy)
    return whole
  end

  -- Whether a settle takes more than was reserved, and nothing less.
  local function takes_more(charges)
    for _, charge in ipairs(charges) do
      for i, actual in ipairs(charge.actual or {}) do
        if actual < charge.charges[i] then return false end
      end
    end
    return true
  end

  -- The answer without any change: the account was reset since, or this permit was refunded before, or none more fit.
  local function known_refund(charges, accounts, operation, now)
    local booking = operation.booking
    for _, account in ipairs(accounts) do
      local epoch = account.extra and account.extra.epoch or 0
      if epoch > 0 and booking.granted_at <= epoch then return "dropped" end
    end
    if not operation.remember then return nil end
    -- A full server remembers no more refunds. More to pay counts nevertheless, and again if it is repeated.
    if is_full and operation.verb == "settle" and takes_more(charges) then return nil end
    local expires = max(plus(booking.at, longest_memory(charges)), plus(now, REFUND_REMEMBERED))
    local keeper = operation.keeper
    local remembered = engine.memory.remember_refund(accounts[keeper], booking.permit, expires, now)
    if remembered == "repeated" then return "repeated" end
    if remembered == "full" then return "dropped" end
    engine.change.note_expiry(accounts[keeper], charges[keeper].policy)
  end

  -- A bucket's debt is at most one burst.
  local function overrun(charges)
    for index, charge in ipairs(charges) do
      for i, limit in ipairs(charge.policy.limits) do
        local more = charge.actual and since(charge.actual[i], charge.charges[i]) or 0
        if not charge.policy.shadow and engine.kind.refills(limit) and more > limit.capacity then
          return { "refused", "overrun", index - 1, i - 1, more }
        end
      end
    end
  end

  -- Corrects the cost once the actual one is known, and frees the slots: the call is over.
  function correct.settle(charges, accounts, operation, now)
    local refused = overrun(charges)
    if refused then return refused, false end
    now = engine.change.newest(accounts, now)
    local known = known_refund(charges, accounts, operation, now)
    if known then return { "settled", known }, false end
    local whole = true
    for index, charge in ipairs(charges) do
      if charge.actual then
        whole = correct_account(charge, accounts[index], operation.booking, charge.actual, now) and whole
      end
    end
    return { "settled", whole and "whole" or "partly" }, true
  end

  -- Restores the state before the last booking, if it was this permit's and nothing has changed since.
  local function undo(charge, account, permit, now)
    local extra = account.extra
    local last = extra and extra.undo
    if not last or last.permit ~= permit then return false end
    account.meters, account.seen = last.meters, now
    extra.undo, extra.frontier, extra.frontier_limit = nil, last.frontier, last.frontier_limit
    local to = engine.account.as_of(account)
    for i, limit in ipairs(charge.policy.limits) do engine.meter.advance(limit, account.meters[i], last.as_of, to) end
    engine.change.drop_empty_extra(account)
    engine.change.note_expiry(account, charge.policy)
    return true
  end

  -- Gives an unused permit back: exactly, if it was the last booking and nothing has changed since; else as a
  -- settle to nothing, but for buckets whose place still lies ahead, where others have been booked on top of it.
  function correct.give_back(charges, accounts, operation, now)
    now = engine.change.newest(accounts, now)
    local known = known_refund(charges, accounts, operation, now)
    if known then return { "settled", known }, false end
    local booking, whole = operation.booking, true
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      engine.memory.forget_call(account, booking.permit)
      if not undo(charge, account, booking.permit, now) then
        local nothing = {}
        for i, limit in ipairs(charge.policy.limits) do
          nothing[i] = not (booking.at > now and engine.kind.refills(limit)) and 0
        end
        whole = correct_account(charge, account, booking, nothing, now) and whole
      end
    end
    return { "settled", whole and "whole" or "partly" }, true
  end

  -- Frees the slots of a permit, also those that have expired.
  function correct.free_slots(charges, accounts, permit)
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      for i, limit in ipairs(charge.policy.limits) do engine.meter.free(limit, account.meters[i], permit) end
      engine.change.note_expiry(account, charge.policy)
    end
  end

  -- Frees the slots of a permit, if it still holds any; else changes nothing and says so.
  function correct.done(charges, accounts, operation, now)
    local permit = operation.permit
    local held = false
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      for i, limit in ipairs(charge.policy.limits) do
        held = held or engine.meter.holds_slot(limit, account.meters[i], permit, max(now, account.seen))
      end
    end
    if held then correct.free_slots(charges, accounts, permit) end
    return { "done", held }, held
  end

  -- Whether a permit has every slot of these charges; true where there are none to have.
  function correct.holds_all_slots(charges, accounts, permit, now, shadows_too)
    for index, charge in ipairs(charges) do
      for i, limit in ipairs(charge.policy.limits) do
        local asked = engine.kind.has_slots(limit) and (shadows_too or not charge.policy.shadow)
        if asked and not engine.meter.holds_slot(limit, accounts[index].meters[i], permit, now) then return false end
      end
    end
    return true
  end

  -- Keeps the slots of a permit, if it still holds all of them; else changes nothing and says so.
  function correct.renew(charges, accounts, operation, now)
    local permit = operation.permit
    now = engine.change.newest(accounts, now)
    if not correct.holds_all_slots(charges, accounts, permit, now, true) then return { "renewed", false }, false end
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      engine.change.bring_to(account, charge.policy, now)
      for i, limit in ipairs(charge.policy.limits) do
        if engine.kind.has_slots(limit) then
          engine.slots.renew(account.meters[i][2], permit, plus(now, limit.period))
        end
      end
      engine.change.note_expiry(account, charge.policy)
    end
    return { "renewed", true }, true
  end

  -- Resets accounts. Permits granted before settle nothing afterwards; callers' ids still count once.
  function correct.reset(charges, accounts, _, now)
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      local known, seen = account.extra or {}, max(now, account.seen)
      -- Until no permit from before can matter any more, not even one that was booked ahead.
      local epoch_expires = plus(max(seen, engine.account.frontier(account)), longest_memory({ charge }))
      account.meters, account.seen = engine.change.new(charge.policy).meters, seen
      account.extra =
        { epoch = seen, epoch_expires = epoch_expires, calls = known.calls, calls_expire = known.calls_expire }
      engine.change.note_expiry(account, charge.policy)
    end
    return { "reset" }, true
  end
  return correct
end
