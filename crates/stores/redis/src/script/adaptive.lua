-- A limit whose rate is learned: a bucket with a rate and a burst of its own. Mirrors adaptive.rs.
-- The meter is {identity, used, part, rate, burst, grants, version, cut, cut_at, controller}; the limit's amount is the
-- rate that applies until something is learned.

parts.adaptive = function()
  local adaptive = {}

  local RATE_PERIOD = 1000000000000
  local LEARNED_KEPT = 2592000000000

  function adaptive.fresh_meter(limit)
    return { limit.identity, 0, 0, 0, 1, 0, 0, 0, 0, "" }
  end

  function adaptive.rate(limit, meter)
    return meter[7] == 0 and limit.amount or meter[4]
  end

  -- The same as a limit of the kind bucket.
  function adaptive.as_bucket(limit, meter)
    return { amount = adaptive.rate(limit, meter), period = RATE_PERIOD, capacity = meter[5] }
  end

  function adaptive.advance(limit, meter, elapsed)
    meter[2], meter[3] = engine.bucket.after(adaptive.as_bucket(limit, meter), meter[2], meter[3], elapsed)
    if meter[7] == 0 and meter[2] == 0 and meter[3] == 0 then meter[6] = 0 end
  end

  function adaptive.used(limit, meter, elapsed)
    local bucket = engine.bucket
    return bucket.whole(bucket.after(adaptive.as_bucket(limit, meter), meter[2], meter[3], elapsed))
  end

  function adaptive.wait_for(limit, meter, amount)
    return engine.bucket.wait_for(adaptive.as_bucket(limit, meter), meter[2], meter[3], meter[5], amount)
  end

  function adaptive.refilled_at(limit, meter, as_of)
    return engine.bucket.good_as_new_at(adaptive.as_bucket(limit, meter), meter[2], meter[3], as_of)
  end

  function adaptive.good_as_new_at(limit, meter, as_of)
    local refilled_at = adaptive.refilled_at(limit, meter, as_of)
    return meter[7] == 0 and refilled_at or max(refilled_at, plus(as_of, LEARNED_KEPT))
  end

  -- Takes `amount` at `at`.
  function adaptive.debit(limit, meter, amount, as_of, at)
    adaptive.advance(limit, meter, since(at, as_of))
    meter[2], meter[6] = min(meter[2] + amount, MAX), min(meter[6] + amount, MAX)
    local holds = engine.bucket.whole(meter[2], meter[3]) <= meter[5]
    return MAX, adaptive.good_as_new_at(limit, meter, at), holds
  end

  -- Takes back a call that was not made, if it still counts.
  function adaptive.settle(limit, meter, booked_at, reserved, actual, as_of)
    local bucket, like = engine.bucket, adaptive.as_bucket(limit, meter)
    meter[6] = since(meter[6], since(reserved, actual))
    local young = bucket.refilled_in(like, since(as_of, booked_at)) <= meter[5]
    meter[2] = min(meter[2] + since(actual, reserved), MAX)
    if young then meter[2], meter[3] = bucket.credit(meter[2], meter[3], since(reserved, actual)) end
    return young or actual >= reserved
  end

  -- Whether a rate was cut after this booking was granted.
  function adaptive.cut_since(charges, accounts, booking)
    for index, charge in ipairs(charges) do
      for i, limit in ipairs(charge.policy.limits) do
        local meter = accounts[index].meters[i]
        if limit.kind == "adaptive" and meter[8] > 0 and booking.granted_at <= meter[9] then return true end
      end
    end
    return false
  end
  return adaptive
end
