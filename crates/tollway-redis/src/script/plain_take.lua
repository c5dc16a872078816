-- The fast path of a take: one policy without an edge, an account without a queue or a hold, and only windows and buckets,
-- all of which have room. Two short loops work out every meter and debit it. Every other take goes through decide.lua,
-- which would answer the same.

parts.plain_take = function()
  local plain_take = {}

  -- What each meter becomes: its two numbers, and when it is as good as new. Overwritten by every take.
  local first, second, as_new = {}, {}, {}

  local function fits_bucket(i, limit, meter, amount, elapsed, now)
    local bucket = engine.bucket
    local used, part = bucket.after(limit, meter[2], meter[3], elapsed)
    if amount > 0 and bucket.whole(used, part) + amount > limit.capacity then return false end
    first[i], second[i] = used + amount, part
    as_new[i] = bucket.kept_until(limit, used + amount, part, now)
    return true
  end

  local function fits_window(i, limit, meter, amount, now)
    local kind, ends, count = limit.kind, meter[2], meter[3]
    if kind ~= "every" and kind ~= "first" and kind ~= "calendar" then return false end
    if now >= ends then
      count = 0
      if kind == "every" then
        ends = plus(now - now % limit.period, limit.period)
      elseif kind == "first" then
        ends = amount > 0 and plus(now, limit.period) or 0
      else
        ends = engine.window.at(limit, ends, count, now)
      end
    end
    count = count + amount
    if amount > 0 and count > limit.amount then return false end
    first[i], second[i] = ends, count
    as_new[i] = count == 0 and kind ~= "first" and 0 or ends
    return true
  end

  -- Used, resets_at and as_of of every limit, then no hold: see readings.lua.
  local function readings(limits, now)
    local all = {}
    for i = 1, #limits do
      local n = 3 * i
      if limits[i].kind == "bucket" then
        local bucket, used, part = engine.bucket, first[i], second[i]
        all[n - 2], all[n - 1] = bucket.whole(used, part), max(bucket.good_as_new_at(limits[i], used, part, now), now)
      else
        all[n - 2], all[n - 1] = second[i], max(first[i], now)
      end
      all[n] = now
    end
    all[3 * #limits + 1] = 0
    return all
  end

  -- Nothing if this is not the place for it; then nothing has changed.
  function plain_take.take(charge, account, terms, now)
    local limits, meters, amounts = charge.policy.limits, account.meters, charge.charges
    now = max(now, account.seen)
    local elapsed = now - account.seen
    for i = 1, #limits do
      local limit = limits[i]
      if limit.kind == "bucket" then
        if not fits_bucket(i, limit, meters[i], amounts[i], elapsed, now) then return nil end
      elseif not fits_window(i, limit, meters[i], amounts[i], now) then
        return nil
      end
    end
    local good_until, expires = MAX, now
    for i = 1, #limits do
      local meter, as_new_at = meters[i], as_new[i]
      meter[2], meter[3] = first[i], second[i]
      if amounts[i] > 0 and limits[i].kind ~= "bucket" and first[i] < good_until then good_until = first[i] end
      if as_new_at > expires then expires = as_new_at end
    end
    account.seen, account.expires = now, expires
    local shown = terms.readings and readings(limits, now) or false
    return { "granted", terms.permit, now, now, now, good_until, false, false, 0, shown }
  end
  return plain_take
end
