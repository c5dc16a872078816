-- The kinds of limits, and what they differ in: see limit.lua. A kind that is not listed is an error, which stops the
-- call before it writes: no other algorithm may decide in its place. Mirrors limit/kinds.rs.

parts.kind = function()
  local kind_of = {}

  -- The last branch of every question that is asked by kind.
  function kind_of.unknown(limit)
    error("KIND " .. tostring(limit.kind) .. " is no kind of limit that this script knows", 0)
  end

  -- Limit::has_slots.
  function kind_of.has_slots(limit)
    local kind = limit.kind
    if kind == "slots" then return true end
    if kind == "every" or kind == "calendar" or kind == "first" or kind == "sliding" then return false end
    if kind == "bucket" or kind == "adaptive" then return false end
    return kind_of.unknown(limit)
  end

  -- Limit::refills.
  function kind_of.refills(limit)
    local kind = limit.kind
    if kind == "bucket" or kind == "adaptive" then return true end
    if kind == "every" or kind == "calendar" or kind == "first" or kind == "sliding" or kind == "slots" then
      return false
    end
    return kind_of.unknown(limit)
  end
  return kind_of
end
