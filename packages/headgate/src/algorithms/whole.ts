/** Counts and costs go to 10^15, so that sums of a few of them stay exact in a double. */
export const MOST_UNITS = 1e15

/** A settled count may pass its limit, but not this, so that it stays exact and below what `mulDiv` divides by. */
export const MOST_COUNTED = 2e15

/** The longest time from empty to full, some 95 years; twice that from today still is below 2^53 us. */
export const LONGEST_US = 3e15

export function gcd(a: number, b: number): number {
  while (b > 0) [a, b] = [b, a % b]
  return a
}

/** An equal part of a limit, rounded down so that all parts are no more than the whole, but never nothing of something. With `nth`,
 *  from 0 on, the first parts are one larger, so that all are just the whole. */
export function part(limit: number, nodes: number, nth = nodes): number {
  const more = nth < limit % nodes ? 1 : 0
  return limit === 0 ? 0 : Math.max(1, Math.floor(limit / nodes) + more)
}

/** What `mulDiv` left over. */
export let rest = 0

/**
 * floor(a * b / m) and, in `rest`, the remainder: exact for whole a < m <= 3 * 10^15 and b < 2^53, also where a * b is too
 * large for a double. Then it is long division in base 2^k, with k as large as keeps every step below 2^53.
 */
export function mulDiv(a: number, b: number, m: number): number {
  const product = a * b
  if (product < EXACT) {
    const quotient = Math.floor(product / m)
    rest = product - quotient * m
    return quotient
  }
  let base = 2
  while (m * base * 4 <= EXACT) base *= 2
  let unit = 1
  while (unit * base <= b) unit *= base
  let quotient = 0
  let remainder = 0
  for (; unit >= 1; unit /= base) {
    const digit = Math.floor(b / unit)
    b -= digit * unit
    const step = remainder * base + a * digit
    const part = Math.floor(step / m)
    remainder = step - part * m
    quotient = quotient * base + part
  }
  rest = remainder
  return quotient
}

/** ceil(a * b / m), under the same conditions. */
export function mulDivUp(a: number, b: number, m: number): number {
  const quotient = mulDiv(a, b, m)
  return rest > 0 ? quotient + 1 : quotient
}

const EXACT = 2 ** 53
