import { isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { addresses, colons, decorated, dotted, ipv4, notations } from './address.cases.ts'
import { addressKey, formatAddress, parseAddress } from './address.ts'

/** What an address is called when it is printed again. */
const printed = (text: string) => {
  const address = parseAddress(text)
  return address && formatAddress(address)
}

describe('one client has one key', () => {
  const table: [text: string, key: string][] = [
    ['127.0.0.1', '127.0.0.1'],
    ['255.255.255.255', '255.255.255.255'],
    ['0.0.0.0', '0.0.0.0'],
    ['192.0.2.1:80', '192.0.2.1'],
    ['192.0.2.1:_hidden', '192.0.2.1'],
    ['"192.0.2.1"', '192.0.2.1'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
    ['::FFFF:10.1.2.3', '10.1.2.3'],
    ['::ffff:a01:203', '10.1.2.3'],
    ['0:0:0:0:0:ffff:0a01:0203', '10.1.2.3'],
    ['[::ffff:10.1.2.3]:443', '10.1.2.3'],
    ['::ffff:10.1.2.3%eth0', '10.1.2.3'],
    ['64:ff9b::192.0.2.33', '192.0.2.33'],
    ['64:ff9b::c000:221', '192.0.2.33'],
    ['::1', '::/64'],
    ['::', '::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
    ['2001:0db8:0001:0002:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::192.0.2.1', '2001:db8:1:2::/64'],
    ['"[2001:db8:1:2::1]:47011"', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::1]', '2001:db8:1:2::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['[fe80::1%25eth0]:80', 'fe80::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['::2:3:4:5:6:7:8', '0:2:3:4::/64'],
    ['1::8', '1::/64'],
    ['64:ff9b:1::192.0.2.33', '64:ff9b:1::/64'],
    ['::1.2.3.4', '::/64'],
  ]
  test.each(table)('%s is %s', (text, key) => {
    expect(addressKey(text)).toBe(key)
    expect(addressKey(text), 'again').toBe(key)
  })

  test.each([
    [32, '2001:db8::/32'],
    [56, '2001:db8:1:200::/56'],
    [60, '2001:db8:1:230::/60'],
    [127, '2001:db8:1:234:5:6:7:8/127'],
    [128, '2001:db8:1:234:5:6:7:9/128'],
  ])('with a prefix of %i bits 2001:db8:1:234:5:6:7:9 counts as %s', (prefix, key) => {
    expect(addressKey('2001:db8:1:234:5:6:7:9', prefix)).toBe(key)
  })

  test.each([
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['0:0:0:0:0:0:0:0', '::'],
    ['0:0:1:0:0:0:0:0', '0:0:1::'],
  ])('%s is printed as %s', (text, canonical) => expect(printed(text)).toBe(canonical))
})

test.each([
  ['nothing', ''],
  ['a name', 'localhost'],
  ['a leading zero', '010.0.0.1'],
  ['two zeros', '1.2.3.00'],
  ['a part above 255', '1.2.3.256'],
  ['three parts', '1.2.3'],
  ['five parts', '1.2.3.4.5'],
  ['an empty part', '1..2.3'],
  ['a last dot', '1.2.3.4.'],
  ['a number', '2130706433'],
  ['hex', '0x7f.0.0.1'],
  ['a space', ' 1.2.3.4'],
  ['a sign', '+1.2.3.4'],
  ['other digits', '١.٢.٣.٤'],
  ['a mask', '10.0.0.0/8'],
  ['a port that is empty', '1.2.3.4:'],
  ['a port of six digits', '1.2.3.4:123456'],
  ['IPv4 in brackets', '[1.2.3.4]'],
  ['IPv4 with a zone', '1.2.3.4%eth0'],
  ['a colon', ':'],
  ['three colons', ':::'],
  ['a first colon', ':1:2:3:4:5:6:7'],
  ['a last colon', '1:2:3:4:5:6:7:'],
  ['seven groups', '1:2:3:4:5:6:7'],
  ['nine groups', '1:2:3:4:5:6:7:8:9'],
  ['two gaps', '1::2::3'],
  ['a gap for no group', '1:2:3:4::5:6:7:8'],
  ['five digits', '::12345'],
  ['no hex digit', '::g'],
  ['IPv4 in the middle', '::1.2.3.4:5'],
  ['IPv4 after seven groups', '1:2:3:4:5:6:7:1.2.3.4'],
  ['IPv4 of three parts inside', '::ffff:1.2.3'],
  ['a leading zero inside', '::ffff:01.2.3.4'],
  ['an empty zone', '::1%'],
  ['an open bracket', '[::1'],
  ['a closed bracket', '::1]'],
  ['brackets in brackets', '[[::1]]'],
  ['an open quote', '"::1'],
  ['a quote', '"'],
  ['two quotes', '""'],
  ['a port without brackets in quotes', '"::1":80'],
  ['the unknown', 'unknown'],
  ['the hidden', '_hidden'],
  ['more than 100 characters', `::1%${'x'.repeat(97)}`],
])('%s is no address: %s', (_, text) => {
  expect(parseAddress(text)).toBeUndefined()
  expect(addressKey(text)).toBeUndefined()
})

test('a socket without an address has no key', () => {
  expect(addressKey(undefined)).toBeUndefined()
  expect(parseAddress(undefined)).toBeUndefined()
})

test('all notations of an address meet, with and without what stands around it', () => {
  fc.assert(
    fc.property(addresses, notations, decorated, ({ groups, plain }, notation, decorate) => {
      const text = decorate(notation(groups))
      expect(parseAddress(text)).toEqual(plain)
      expect(addressKey(text)).toBe(addressKey(colons(groups)))
    }),
    runs(1000),
  )
})

test('addresses of one /64 meet and those of two do not', () => {
  fc.assert(
    fc.property(addresses, addresses, ({ groups, plain }, other) => {
      fc.pre(plain.length === 8)
      const neighbour = [...groups.slice(0, 4), ...other.groups.slice(4)]
      fc.pre(parseAddress(colons(neighbour))?.length === 8)
      expect(addressKey(colons(neighbour))).toBe(addressKey(colons(groups)))
      const inOne = other.plain.length === 8 && groups.slice(0, 4).join() === other.groups.slice(0, 4).join()
      expect(addressKey(colons(other.groups)) === addressKey(colons(groups))).toBe(inOne)
    }),
    runs(500),
  )
})

test('two IPv4 addresses never meet, however they are written', () => {
  fc.assert(
    fc.property(ipv4, ipv4, notations, (a, b, notation) => {
      const mapped = ([high = 0, low = 0]: readonly number[]) => notation([0, 0, 0, 0, 0, 0xffff, high, low])
      expect(addressKey(mapped(a))).toBe(dotted(a))
      expect(addressKey(mapped(a)) === addressKey(dotted(b))).toBe(dotted(a) === dotted(b))
    }),
    runs(300),
  )
})

describe('for text of any kind', () => {
  const nearly = fc
    .array(fc.constantFrom(...'0129afFx', ':', ':', '::', '.', '%', '[', ']', '"', '/', '255', 'ffff', '1.2.3.4'), {
      maxLength: 20,
    })
    .map((parts) => parts.join(''))
  const texts = fc.oneof(fc.string({ unit: 'binary' }), nearly, fc.ipV4(), fc.ipV6())

  // Ours alone: ports, brackets, quotes. Node's alone: more than 100 characters.
  const isOurs = (text: string) => /["[\]]/.test(text) || /^[\d.]+:/.test(text)

  test('it is an address here if Node has it for one', () => {
    fc.assert(
      fc.property(texts, (text) => {
        fc.pre(!isOurs(text) && !text.includes('%') && text.length <= 100)
        expect(parseAddress(text) !== undefined, text).toBe(isIP(text) > 0)
      }),
      runs(2000),
    )
  })

  test('what is printed is read again as the same, and is the key of itself', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const canonical = printed(text)
        const key = addressKey(text)
        expect(key === undefined).toBe(canonical === undefined)
        if (key === undefined || canonical === undefined) return
        expect(isIP(canonical)).toBeGreaterThan(0)
        expect(printed(canonical)).toBe(canonical)
        expect(addressKey(canonical)).toBe(key)
        expect(addressKey(key.replace('/64', ''))).toBe(key)
      }),
      runs(1000),
    )
  })

  test('it is canonical as the URL parser has it', () => {
    fc.assert(
      fc.property(addresses, ({ plain }) => {
        const text = formatAddress(plain)
        const host = new URL(`http://${plain.length === 8 ? `[${text}]` : text}`).hostname
        expect(host.replace(/[[\]]/g, '')).toBe(text)
      }),
      runs(300),
    )
  })

  test.each(['1', ':', '::', '1.', '[', '"', '%', 'ffff:', '1:'])('256 KiB of %s is nonsense at once', (part) => {
    expect(addressKey(part.repeat(1 << 18))).toBeUndefined()
  })
})
