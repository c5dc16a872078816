-- Readings: what every limit shows. Most takes ask for them, so windows and buckets are read without the other parts.

parts.readings = function()
  local readings = {}

  -- What is used at `at`, rounded up, and when the limit resets; the meter is as of `as_of`. Equal to what the part
  -- `meter` answers.
  local function read(limit, meter, as_of, at)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" then
      local ends, count = engine.window.at(limit, meter[2], meter[3], at)
      return count, max(ends, at)
    elseif kind == "first" then
      return at < meter[2] and meter[3] or 0, max(meter[2], at)
    elseif kind == "bucket" then
      local bucket, used, part = engine.bucket, meter[2], meter[3]
      local whole = bucket.whole(bucket.after(limit, used, part, since(at, as_of)))
      return whole, max(bucket.good_as_new_at(limit, used, part, as_of), at)
    end
    return engine.meter.used(limit, meter, as_of, at), engine.meter.resets_at(limit, meter, as_of, at)
  end

  -- What every limit of every charge shows now, or at its frontier if that lies ahead: used, resets_at and as_of of
  -- each, and the burst and the grants of an adaptive one; after all of them, for each charge the end of a vendor's hold or 0.
  function readings.of_all(charges, accounts, now)
    local all, n = {}, 0
    for index, charge in ipairs(charges) do
      local account = accounts[index]
      local as_of = engine.account.as_of(account)
      local at = max(now, as_of)
      for i, limit in ipairs(charge.policy.limits) do
        all[n + 1], all[n + 2] = read(limit, account.meters[i], as_of, at)
        all[n + 3] = at
        n = n + 3
        if limit.kind == "adaptive" then
          local meter = clone(account.meters[i])
          engine.adaptive.advance(limit, meter, since(at, as_of))
          all[n + 1], all[n + 2] = meter[5], meter[6]
          n = n + 2
        end
      end
    end
    for index, account in ipairs(accounts) do
      local held_until = engine.account.held_until(account)
      all[n + index] = held_until > now and held_until or 0
    end
    return all
  end
  return readings
end
