-- The questions that a decision asks every algorithm. Mirrors algorithm/mod.rs. A limit is what the caller sent:
-- kind, identity, amount, capacity, period; refill_time of a bucket; windows of a calendar. Its kind is "every" or
-- "calendar" (aligned windows), "first" (from first call), "sliding", "bucket", "adaptive" or "slots"; any
-- other is an error.

parts.limit = function()
  local limit_of = {}

  -- The earliest moment from `from` on at which `amount` fits, if usage does not change before. The meter is as of `as_of`.
  function limit_of.earliest(limit, meter, amount, as_of, from, edge)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" then
      return engine.window.earliest(limit, meter[2], meter[3], amount, from, edge)
    elseif kind == "bucket" then
      return max(from, plus(as_of, engine.bucket.wait_for(limit, meter[2], meter[3], limit.capacity, amount)))
    elseif kind == "first" then
      local ends = meter[2]
      if (from < ends and meter[3] or 0) + amount <= limit.amount then return from end
      return from < ends and ends or 0
    elseif kind == "sliding" then
      return engine.sliding.earliest(limit.period, meter[2], meter[3], meter[4], limit.amount, amount, from)
    elseif kind == "slots" then
      return engine.slots.earliest(meter[2], limit.amount, from)
    elseif kind == "adaptive" then
      return max(from, plus(as_of, engine.adaptive.wait_for(limit, meter, amount)))
    end
    return engine.kind.unknown(limit)
  end

  -- Brings a meter from `as_of` to `at` and debits `amount` there. Returns until when the permit may begin,
  -- when the meter is as good as new, and whether it is within its limit.
  function limit_of.debit(limit, meter, amount, as_of, at, edge, permit)
    local kind = limit.kind
    if kind == "every" or kind == "calendar" then
      local ends, count = engine.window.at(limit, meter[2], meter[3], at)
      count = plus(count, amount)
      meter[2], meter[3] = ends, count
      return engine.window.good_until(limit, ends, edge), count == 0 and 0 or ends, count <= limit.amount
    elseif kind == "bucket" then
      local used, part = engine.bucket.after(limit, meter[2], meter[3], since(at, as_of))
      used = min(used + amount, MAX)
      meter[2], meter[3] = used, part
      local holds = engine.bucket.whole(used, part) <= limit.capacity
      return MAX, engine.bucket.kept_until(limit, used, part, at), holds
    end
    if kind == "first" then
      -- Here and not in a part of its own: six of these are a take of a consumer, and making parts costs more than it.
      local ends, count = meter[2], meter[3]
      if ends <= at then ends, count = 0, 0 end
      if amount > 0 then
        if ends == 0 then ends = plus(at, limit.period) end
        count = min(count + amount, MAX)
      end
      meter[2], meter[3] = ends, count
      return ends, ends, count <= limit.amount
    end
    if kind == "adaptive" then return engine.adaptive.debit(limit, meter, amount, as_of, at) end
    engine.meter.advance(limit, meter, as_of, at)
    local good_until = MAX
    if kind == "sliding" then
      meter[4] = min(meter[4] + amount, MAX)
    elseif kind == "slots" then
      if amount > 0 then
        good_until = plus(at, limit.period)
        engine.slots.hold(meter[2], permit, good_until)
      end
    else
      engine.kind.unknown(limit)
    end
    local holds = engine.meter.used(limit, meter, at, at) <= limit.capacity
    return good_until, engine.meter.good_as_new_at(limit, meter, at), holds
  end
  return limit_of
end
