-- Subjects without counters that get none use shared ones, whose keys follow all others, one for each counter.
--
-- A subject with one counter is known, and uses its own. A new one uses the shared ones if its call may make none, if the
-- server has no room, or if it used them before and one of them still counts: else it would have two limits.

-- Of which counters of the call in hand the shared ones are used.
local shared_now = {}

-- Of each charge of an operation, whether a counter whose key is so many places behind its own has a value.
local function charges_with_values(operation, values, behind)
  local found = {}
  for _, meter in ipairs(operation.meters) do
    if values[VALUES_BEFORE + behind + meter[COUNTER]] then found[meter[CHARGE]] = true end
  end
  return found
end

local function share_counters(request, values)
  local behind = #keys - request.shared - KEYS_BEFORE
  for _, operation in ipairs(request.operations) do
    local known = charges_with_values(operation, values, 0)
    local shares = charges_with_values(operation, values, behind)
    for _, meter in ipairs(operation.meters) do
      local i, charge = meter[COUNTER], meter[CHARGE]
      local is_new = not known[charge] and (request.full or request.shares or shares[charge])
      if not values[VALUES_BEFORE + i] and (is_new or request.strict) then shared_now[i] = true end
    end
  end
  for i in pairs(shared_now) do
    keys[KEYS_BEFORE + i] = keys[KEYS_BEFORE + behind + i]
    values[VALUES_BEFORE + i] = values[VALUES_BEFORE + behind + i]
  end
end

-- Says in a granted outcome how many new subjects have counters now.
local function note_made(operation, outcome, values)
  if outcome[1] ~= "granted" then return end
  local known, made = charges_with_values(operation, values, 0), 0
  for _, meter in ipairs(operation.meters) do
    local i, charge = meter[COUNTER], meter[CHARGE]
    if meter[AMOUNT] > 0 and not known[charge] and not shared_now[i] then
      known[charge], made = true, made + 1
      -- The next take in the call finds it.
      values[VALUES_BEFORE + i] = "0"
    end
  end
  outcome[11] = made
end
