/** The slot of a key in a Redis Cluster: CRC16 (XMODEM) of what stands in its first braces, if anything does, modulo 16384. */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const bytes = encoder.encode(close > open + 1 ? key.slice(open + 1, close) : key)
  let crc = 0
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ (table[((crc >> 8) ^ byte) & 0xff] as number)
  return crc & 0x3fff
}

const encoder = new TextEncoder()
const table = Uint16Array.from({ length: 256 }, (_, i) => {
  let crc = i << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})
