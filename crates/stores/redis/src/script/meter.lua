-- What else is asked of a meter. Mirrors algorithm/mod.rs.

parts.meter = function()
  local meter_of = {}

  -- An unused meter.
  function meter_of.fresh_meter(limit)
    local kind = limit.kind
    if kind == "slots" then return { limit.identity, {} } end
    if kind == "sliding" then return { limit.identity, 0, 0, 0 } end
    if kind == "adaptive" then return engine.adaptive.fresh_meter(limit) end
    if kind == "every" or kind == "calendar" or kind == "first" or kind == "bucket" then
      return { limit.identity, 0, 0 }
    end
    return engine.kind.unknown(limit)
  end

  -- Brings a meter from `as_of` to `to`: windows that have ended are empty, buckets refill, slots expire.
  function meter_of.advance(limit, meter, as_of, to)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" then
      meter[2], meter[3] = engine.window.at(limit, meter[2], meter[3], to)
    elseif kind == "bucket" then
      meter[2], meter[3] = engine.bucket.after(limit, meter[2], meter[3], since(to, as_of))
    elseif kind == "first" then
      if to >= meter[2] then meter[2], meter[3] = 0, 0 end
    elseif kind == "sliding" then
      meter[2], meter[3], meter[4] = engine.sliding.at(limit.period, meter[2], meter[3], meter[4], to)
    elseif kind == "slots" then
      meter[2] = engine.slots.without(meter[2], nil, to)
    elseif kind == "adaptive" then
      engine.adaptive.advance(limit, meter, since(to, as_of))
    else
      engine.kind.unknown(limit)
    end
  end

  -- What is used at `at`, rounded up; the meter is as of `as_of`.
  function meter_of.used(limit, meter, as_of, at)
    local kind, bucket = limit.kind, engine.bucket
    if kind == "bucket" then return bucket.whole(bucket.after(limit, meter[2], meter[3], since(at, as_of))) end
    if kind == "sliding" then return engine.sliding.used(limit.period, meter[2], meter[3], meter[4], at) end
    if kind == "slots" then return engine.slots.held(meter[2], at) end
    if kind == "adaptive" then return engine.adaptive.used(limit, meter, since(at, as_of)) end
    if kind == "every" or kind == "calendar" or kind == "first" then return at < meter[2] and meter[3] or 0 end
    return engine.kind.unknown(limit)
  end

  -- When a meter that is as of `as_of` is as good as new, if no take follows.
  function meter_of.good_as_new_at(limit, meter, as_of)
    local kind = limit.kind
    if kind == "bucket" then return engine.bucket.good_as_new_at(limit, meter[2], meter[3], as_of) end
    if kind == "sliding" then return engine.sliding.good_as_new_at(limit.period, meter[2], meter[3], meter[4]) end
    if kind == "slots" then return engine.slots.last_end(meter[2]) end
    if kind == "adaptive" then return engine.adaptive.good_as_new_at(limit, meter, as_of) end
    if kind == "first" then return meter[2] end
    if kind == "every" or kind == "calendar" then return meter[3] == 0 and 0 or meter[2] end
    return engine.kind.unknown(limit)
  end

  -- When the limit resets: a window's end, a full bucket, the last slot's expiry; never before `at`.
  function meter_of.resets_at(limit, meter, as_of, at)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" then
      local ends = engine.window.at(limit, meter[2], meter[3], at)
      return max(ends, at)
    end
    if kind == "adaptive" then return max(engine.adaptive.refilled_at(limit, meter, as_of), at) end
    return max(meter_of.good_as_new_at(limit, meter, as_of), at)
  end

  -- Whether `permit` holds a slot in this meter.
  function meter_of.holds_slot(limit, meter, permit, at)
    return engine.kind.has_slots(limit) and engine.slots.holds(meter[2], permit, at)
  end

  -- Frees the slot that `permit` has in this meter, expired or not, if it is one of slots.
  function meter_of.free(limit, meter, permit)
    if engine.kind.has_slots(limit) then meter[2] = engine.slots.without(meter[2], permit, -1) end
  end
  return meter_of
end
