-- What processes read of an account before its primary changed. A replica that took over may have forgotten the last writes;
-- a server that came back empty, all of them.
--
-- `noted` of an account is {primary, at, until, meters}: what its meters were when this primary first changed it, as of `at`. What
-- is more on the account was granted since. So what is used is the largest count that any process has read, and what was granted
-- since, in whatever order processes say it, and however often.

parts.recall = function()
  local recall = {}

  local function longest_memory(policy)
    local longest = 0
    for _, limit in ipairs(policy.limits) do longest = max(longest, limit.period, limit.refill_time or 0) end
    return min(2 * longest, MAX)
  end

  -- Notes what the account was before this primary changed it.
  local function note(account, policy, primary, now)
    if account.noted and account.noted[1] == primary then return end
    local until_then = plus(now, longest_memory(policy))
    account.noted = { primary, engine.account.as_of(account), until_then, pack(account.meters) }
  end

  local function fit(account, policy)
    if not engine.account.fits(account, policy) then engine.change.refit(account, policy) end
  end

  local function advance(account, policy, from, to)
    for i, limit in ipairs(policy.limits) do engine.meter.advance(limit, account.meters[i], from, to) end
  end

  -- Raises a meter, and what was noted, by what the copy counts more than was noted.
  local function raise_count(at, meter, base, copy)
    local missing = since(copy[at], base[at])
    meter[at], base[at] = min(meter[at] + missing, MAX), base[at] + missing
    return missing > 0
  end

  local function raise_window(limit, meter, base, copy)
    local ends, is_aligned = copy[2], limit.kind ~= "first"
    if ends == 0 or (is_aligned and ends < meter[2]) then return false end
    if is_aligned and ends > meter[2] then meter[3] = 0 end
    -- A window from the first call that began again on this primary ends later than the one that was forgotten.
    meter[2] = max(meter[2], ends)
    if base[2] ~= ends then base[2], base[3] = ends, 0 end
    return raise_count(3, meter, base, copy)
  end

  -- In units and parts of a unit, of which `period` are one.
  local function raise_bucket(period, meter, base, copy)
    local units, parts = copy[2] - base[2], copy[3] - base[3]
    if parts < 0 then units, parts = units - 1, parts + period end
    if units < 0 or (units == 0 and parts == 0) then return false end
    meter[2], meter[3] = min(meter[2] + units, MAX), meter[3] + parts
    if meter[3] >= period then meter[2], meter[3] = meter[2] + 1, meter[3] - period end
    base[2], base[3] = copy[2], copy[3]
    return true
  end

  -- A rate that was learned, and not again since.
  local function raise_rate(meter, base, copy)
    if copy[7] <= base[7] or meter[7] ~= base[7] then return false end
    for _, at in ipairs({ 4, 5, 7, 8, 9, 10 }) do meter[at], base[at] = copy[at], copy[at] end
    return true
  end

  local function raise(limit, meter, base, copy)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" or kind == "first" then
      return raise_window(limit, meter, base, copy)
    elseif kind == "bucket" then
      return raise_bucket(limit.period, meter, base, copy)
    elseif kind == "sliding" then
      local previous = raise_count(3, meter, base, copy)
      return raise_count(4, meter, base, copy) or previous
    elseif kind == "adaptive" then
      local has_rate = raise_rate(meter, base, copy)
      return raise_bucket(engine.adaptive.as_bucket(limit, meter).period, meter, base, copy) or has_rate
    elseif kind == "slots" then
      return false
    end
    return engine.kind.unknown(limit)
  end

  -- The queue, what the vendor said, the last reset, ids and refunds. What a forgotten reset dropped counts again: it is no
  -- longer known what was granted before it.
  local function raise_extra(account, copy, policy)
    local theirs, raised = copy.extra or {}, false
    if (theirs.frontier or 0) > engine.account.as_of(account) then
      local before, extra = engine.account.as_of(account), engine.change.extra(account)
      extra.frontier, extra.frontier_limit, extra.undo = theirs.frontier, theirs.frontier_limit, nil
      advance(account, policy, before, theirs.frontier)
      raised = true
    end
    if (theirs.held_until or 0) > engine.account.held_until(account) then
      engine.change.extra(account).held_until, raised = theirs.held_until, true
    end
    if theirs.caps and not (account.extra and account.extra.caps) then
      engine.change.extra(account).caps, raised = theirs.caps, true
    end
    if (theirs.epoch or 0) > (account.extra and account.extra.epoch or 0) then
      local extra = engine.change.extra(account)
      extra.epoch, extra.epoch_expires, raised = theirs.epoch, theirs.epoch_expires, true
    end
    return engine.memory.remember_all(account, copy, account.seen) or raised
  end

  -- Raises the account by what a process read of it. Answers whether that has changed anything.
  local function merge(account, policy, text, now)
    local seen, expires, meters, extra = unpack_text(text)
    local copy = { seen = seen, expires = expires, meters = meters, extra = extra }
    local reset_at = account.extra and account.extra.epoch or 0
    if expires <= now or seen <= reset_at then return false end
    local noted = account.noted
    local base = { seen = noted[2], expires = MAX, meters = unpack_text(noted[4]) }
    fit(account, policy)
    fit(copy, policy)
    fit(base, policy)
    engine.change.bring_to(account, policy, max(now, seen))
    local raised = raise_extra(account, copy, policy)
    local at = engine.account.as_of(account)
    advance(copy, policy, engine.account.as_of(copy), at)
    advance(base, policy, noted[2], at)
    for i, limit in ipairs(policy.limits) do
      raised = raise(limit, account.meters[i], base.meters[i], copy.meters[i]) or raised
    end
    noted[2], noted[4] = at, pack(base.meters)
    if raised then engine.change.note_expiry(account, policy) end
    return raised
  end

  -- Prepares an account for a change on this primary, with what a process read before, if it says so. Answers whether
  -- that has changed the account.
  function recall.open(account, policy, primary, text, now)
    note(account, policy, primary, now)
    return text and merge(account, policy, text, now) or false
  end
  return recall
end
