-- The fast path of a take: one policy without an edge, an account without a queue or a hold, and only windows and buckets,
-- all of which have room. One loop checks every limit, and the next debits its meter. Every other take goes through
-- decide.lua, which would answer the same.
--
-- Windows are worked out here and not in their own part: a function call for each limit would cost as much as the limit.

parts.plain_take = function()
  local plain_take = {}

  -- Whether all limits of a policy are windows and buckets; notes which are which. Asked once per policy and command.
  local function is_plain(policy)
    for _, limit in ipairs(policy.limits) do
      local kind = limit.kind
      limit.is_window = kind == "first" or kind == "every" or kind == "calendar"
      if not limit.is_window and kind ~= "bucket" then return false end
    end
    return policy.edge == 0 and not policy.shadow
  end

  -- Whether a bucket has room, or a window that has ended.
  local function has_room(limit, meter, amount, elapsed)
    if amount == 0 then return true end
    if limit.is_window then return amount <= limit.amount end
    local bucket = engine.bucket
    return bucket.whole(bucket.after(limit, meter[2], meter[3], elapsed)) + amount <= limit.capacity
  end

  -- Debits a bucket, or the first call of a new window. Answers when the permit must begin, and when the meter is as new.
  local function debit(limit, meter, amount, elapsed, now)
    if not limit.is_window then
      local bucket = engine.bucket
      local used, part = bucket.after(limit, meter[2], meter[3], elapsed)
      meter[2], meter[3] = used + amount, part
      return MAX, bucket.kept_until(limit, used + amount, part, now)
    end
    local ends
    if limit.kind == "first" then
      ends = amount > 0 and plus(now, limit.period) or 0
    else
      ends = engine.window.at(limit, 0, 0, now)
    end
    meter[2], meter[3] = ends, amount
    return ends, amount == 0 and 0 or ends
  end

  -- Nothing if this is not the place for it; then nothing has changed.
  function plain_take.take(charge, account, terms, now)
    local policy = charge.policy
    if policy.is_plain == nil then policy.is_plain = is_plain(policy) end
    if account.extra or not policy.is_plain then return nil end
    local limits, meters, amounts = policy.limits, account.meters, charge.charges
    local seen = account.seen
    if seen > now then now = seen end
    local elapsed = now - seen
    for i = 1, #limits do
      local limit, meter, amount = limits[i], meters[i], amounts[i]
      local ends = limit.is_window and meter[2]
      if ends and now < ends then
        if amount > 0 and meter[3] + amount > limit.amount then return nil end
      elseif not has_room(limit, meter, amount, elapsed) then
        return nil
      end
    end
    local good_until, expires = MAX, now
    for i = 1, #limits do
      local limit, meter, amount = limits[i], meters[i], amounts[i]
      local ends, as_new = limit.is_window and meter[2], nil
      if ends and now < ends then
        local count = meter[3] + amount
        meter[3] = count
        -- A window from the first call has begun, also if all of it was given back.
        as_new = count == 0 and limit.kind ~= "first" and 0 or ends
      else
        ends, as_new = debit(limit, meter, amount, elapsed, now)
      end
      if amount > 0 and ends < good_until then good_until = ends end
      if as_new > expires then expires = as_new end
    end
    account.seen, account.expires = now, expires
    local shown = terms.readings and engine.readings.of_all({ charge }, { account }, now) or false
    return { "granted", terms.permit, now, now, now, good_until, false, false, 0, shown }
  end
  return plain_take
end
