-- Slots: held from grant until `done`, each with an expiry of its own. Mirrors concurrency.rs.
-- The meter is {identity, {permit, expires, permit, expires, ...}}.

parts.slots = function()
  local slots = {}

  -- How many slots are held at `at`.
  function slots.held(list, at)
    local held = 0
    for i = 2, #list, 2 do
      if list[i] > at then held = held + 1 end
    end
    return held
  end

  -- The earliest moment from `from` on at which one more slot is free, if none is freed before.
  function slots.earliest(list, amount, from)
    local ends = {}
    for i = 2, #list, 2 do
      if list[i] > from then ends[#ends + 1] = list[i] end
    end
    local too_many = #ends - amount
    if too_many < 0 then return from end
    table.sort(ends)
    return ends[too_many + 1] or from
  end

  -- Those that have not expired at `at` and are not `permit`'s.
  function slots.without(list, permit, at)
    local kept = {}
    for i = 1, #list, 2 do
      if list[i + 1] > at and list[i] ~= permit then
        kept[#kept + 1] = list[i]
        kept[#kept + 1] = list[i + 1]
      end
    end
    return kept
  end

  -- Holds a slot for `permit`.
  function slots.hold(list, permit, expires)
    list[#list + 1] = permit
    list[#list + 1] = expires
  end

  -- Whether `permit` holds a slot at `at`.
  function slots.holds(list, permit, at)
    for i = 1, #list, 2 do
      if list[i] == permit and list[i + 1] > at then return true end
    end
    return false
  end

  -- Prolongs the slot of `permit`.
  function slots.renew(list, permit, expires)
    for i = 1, #list, 2 do
      if list[i] == permit then
        list[i + 1] = max(list[i + 1], expires)
        return
      end
    end
  end

  -- When the last of them is free.
  function slots.last_end(list)
    local last = 0
    for i = 2, #list, 2 do last = max(last, list[i]) end
    return last
  end
  return slots
end
