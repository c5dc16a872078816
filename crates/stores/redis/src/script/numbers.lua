-- Whole numbers in doubles, exact below 2^53. Mirrors time.rs and the wide arithmetic of bucket.rs and sliding.rs.

local floor, max, min = math.floor, math.max, math.min

-- COUNT_MAX: where counts saturate, and the last timestamp ("never").
local MAX = 9007199254740991

-- Timestamp::plus: saturates at the end of time.
local function plus(time, span)
  local sum = time + span
  if sum > MAX then return MAX end
  return sum
end

-- Timestamp::since, and every saturating subtraction.
local function since(later, earlier)
  if later > earlier then return later - earlier end
  return 0
end

-- floor(a * b / c) and the remainder, exactly; from 2^53 on, MAX and no remainder.
local function multiply_divide(a, b, c)
  local product = a * b
  if product > MAX then return engine.exact.multiply_divide(a, b, c) end
  local quotient = floor(product / c)
  return quotient, product - quotient * c
end
