-- Products beyond 2^53. Beside the wide arithmetic of bucket.rs and sliding.rs.

parts.exact = function()
  local exact = {}

  -- a * b exactly, as a double and what it lacks (Dekker).
  local function product_and_rest(a, b)
    local product = a * b
    local a_wide, b_wide = a * 134217729, b * 134217729
    local a_high, b_high = a_wide - (a_wide - a), b_wide - (b_wide - b)
    local a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
  end

  function exact.multiply_divide(a, b, c)
    local product, rest = product_and_rest(a, b)
    local quotient = floor(product / c)
    if quotient > MAX then return MAX, 0 end
    -- The quotient may be off by one: the exact remainder tells.
    local back, back_rest = product_and_rest(quotient, c)
    local remainder = (product - back) + (rest - back_rest)
    if remainder < 0 then return quotient - 1, remainder + c end
    if remainder >= c then return min(quotient + 1, MAX), remainder - c end
    return quotient, remainder
  end
  return exact
end
