/** The twin of whole.ts: the same steps on the same doubles. Returns the quotient and the rest. */
export const wholeLua = `
local floor, max, min = math.floor, math.max, math.min
local HUGE = math.huge
local EXACT, LONGEST_US, MOST_COUNTED = 2 ^ 53, 3e15, 2e15

local function muldiv(a, b, m)
  local product = a * b
  if product < EXACT then
    local quotient = floor(product / m)
    return quotient, product - quotient * m
  end
  local base, unit = 2, 1
  while m * base * 4 <= EXACT do base = base * 2 end
  while unit * base <= b do unit = unit * base end
  local quotient, remainder = 0, 0
  while unit >= 1 do
    local digit = floor(b / unit)
    b = b - digit * unit
    local step = remainder * base + a * digit
    local part = floor(step / m)
    remainder = step - part * m
    quotient = quotient * base + part
    unit = unit / base
  end
  return quotient, remainder
end
`
