import fc from 'fast-check'

/** Small groups and zeros come often: they are what is left out when an address is written. */
const group = fc.oneof(fc.constant(0), fc.nat(0xff), fc.nat(0xffff))
const groupsOf = (length: number) => fc.array(group, { minLength: length, maxLength: length })
const before = fc.constantFrom(
  [0, 0, 0, 0, 0, 0xffff],
  [0x64, 0xff9b, 0, 0, 0, 0],
  [0, 0, 0, 0, 0, 0],
  [0x64, 0xff9b, 0, 0, 0, 1],
)

export const ipv4 = groupsOf(2)

/** Addresses as eight groups, and as what they stand for: two groups for those that are IPv4. */
export const addresses = fc
  .oneof(
    groupsOf(8),
    fc.tuple(before, ipv4).map(([first, last]) => [...first, ...last]),
  )
  .map((groups) => ({ groups, plain: standsForIpv4(groups) ? groups.slice(6) : groups }))

function standsForIpv4(groups: readonly number[]): boolean {
  const front = groups.slice(0, 6).join(':')
  return front === '0:0:0:0:0:65535' || front === '100:65435:0:0:0:0'
}

export const dotted = (pair: readonly number[]) => pair.flatMap((each) => [each >> 8, each & 255]).join('.')
export const colons = (groups: readonly number[]) => groups.map((each) => each.toString(16)).join(':')

type Print = (groups: readonly number[]) => string

/** Ways to write IPv6: padded or not, in either case, the last two groups dotted, any run of zeros left out. */
export const notations: fc.Arbitrary<Print> = fc
  .record({ padded: fc.boolean(), upper: fc.boolean(), mixed: fc.boolean(), gapFrom: fc.nat(7), gapTo: fc.nat(8) })
  .map(({ padded, upper, mixed, gapFrom, gapTo }) => (groups) => {
    const parts = groups.map((each) => each.toString(16).padStart(padded ? 4 : 1, '0'))
    if (mixed) parts.splice(6, 2, dotted(groups.slice(6)))
    const to = Math.min(gapTo, parts.length - (mixed ? 1 : 0))
    const isGap = to > gapFrom && groups.slice(gapFrom, to).every((each) => each === 0)
    const text = isGap ? `${parts.slice(0, gapFrom).join(':')}::${parts.slice(to).join(':')}` : parts.join(':')
    return upper ? text.toUpperCase() : text
  })

/** What proxies and systems put around IPv6. */
export const decorated: fc.Arbitrary<(text: string) => string> = fc.constantFrom<((text: string) => string)[]>(
  (text) => text,
  (text) => `[${text}]`,
  (text) => `[${text}]:80`,
  (text) => `"[${text}]:47011"`,
  (text) => `"${text}"`,
  (text) => `${text}%eth0`,
  (text) => `"[${text}%25wlan-0]:_port"`,
)
