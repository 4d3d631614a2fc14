/**
 * How far the windows of a key are shifted: 0 <= offset < window, spread evenly over keys and the same in every process, so
 * that not all keys are full again at the same instant. Not secret, and it need not be: it moves a window, it grants nothing.
 */
export function staggerUs(key: string, windowUs: number): number {
  return Math.min(Math.floor(shareOf(key) * windowUs), windowUs - 1) // a product so close to the window may round up to it
}

/** Where a key is among all keys: from 0 to 1, the same in every process. */
export function shareOf(key: string): number {
  let low = 0x9e3779b9
  let high = 0x85ebca6b
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i)
    low = Math.imul(low ^ unit, 0x01000193)
    high = Math.imul(high ^ unit, 0x5bd1e995) ^ (high >>> 15)
  }
  low = Math.imul(low ^ (low >>> 16), 0x7feb352d)
  high = Math.imul(high ^ (high >>> 13), 0x846ca68b)
  low ^= low >>> 15
  high ^= low ^ (high >>> 16)
  return (low >>> 0) / 2 ** 32 + (high >>> 11) / 2 ** 53
}
