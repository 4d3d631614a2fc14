import { BlockList } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HeadgateError } from '../errors.ts'
import { runs } from '../properties/support.ts'
import { addresses, colons, dotted, ipv4, notations } from './address.cases.ts'
import { formatAddress } from './address.ts'
import { clientAddress, type ProxyHeader, type TrustProxy, trustOf } from './client-address.ts'

const find = (trustProxy: TrustProxy, peer: string | undefined, forwarded?: string, header?: ProxyHeader) =>
  clientAddress({ peer, forwarded, trust: trustOf(trustProxy), header })

describe('the client is the first that no trusted proxy vouches for', () => {
  const nets = ['10.0.0.0/8', 'fd00::/8', '192.0.2.7']
  const table: [
    promise: string,
    trust: TrustProxy,
    peer: string | undefined,
    header: string | undefined,
    client: string,
  ][] = [
    ['who connects directly is the client', nets, '203.0.113.9', undefined, '203.0.113.9'],
    ['who connects directly is not believed', nets, '203.0.113.9', '1.1.1.1', '203.0.113.9'],
    ['a proxy is believed', nets, '10.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['a chain of proxies is believed', nets, '10.0.0.1', '203.0.113.9, fd00::2, 192.0.2.7', '203.0.113.9'],
    ['the client is not believed about others', nets, '10.0.0.1', '1.1.1.1, 203.0.113.9', '203.0.113.9'],
    ['a client with a trusted address left of it stays', nets, '10.0.0.1', '10.9.9.9,203.0.113.9', '203.0.113.9'],
    ['a trusted host may be the client', nets, '10.0.0.1', '10.0.0.2', '10.0.0.2'],
    ['a proxy without a header is the client', nets, '10.0.0.1', undefined, '10.0.0.1'],
    ['an empty header names nobody', nets, '10.0.0.1', '', '10.0.0.1'],
    ['empty entries are skipped', nets, '10.0.0.1', ', ,203.0.113.9, ,', '203.0.113.9'],
    ['a peer is recognised in any notation', nets, '::ffff:10.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['ports and brackets are dropped', nets, '10.0.0.1', '"[2001:db8::17]:4711"', '2001:db8::17'],
    ['a neighbour of a trusted address is not', nets, '192.0.2.8', '203.0.113.9', '192.0.2.8'],
    ['loopback is the same machine', 'loopback', '127.8.8.8', '203.0.113.9', '203.0.113.9'],
    ['loopback is the same machine over IPv6', 'loopback', '::1', '203.0.113.9', '203.0.113.9'],
    ['loopback is nobody else', 'loopback', '10.0.0.1', '203.0.113.9', '10.0.0.1'],
    ['loopback may be in a list', ['loopback', '10.0.0.1'], '10.0.0.1', '203.0.113.9, ::1', '203.0.113.9'],
    ['an empty list trusts nobody', [], '127.0.0.1', '203.0.113.9', '127.0.0.1'],
    ['IPv6 ranges that are IPv4 are IPv4', ['::ffff:10.0.0.0/104'], '10.3.2.1', '203.0.113.9', '203.0.113.9'],
    ['one hop takes the last entry', 1, '10.0.0.1', '1.1.1.1, 203.0.113.9', '203.0.113.9'],
    ['two hops take the one before', 2, '10.0.0.1', '1.1.1.1, 203.0.113.9, 10.0.0.2', '203.0.113.9'],
    ['more hops than entries take the first', 5, '10.0.0.1', '203.0.113.9, 10.0.0.2', '203.0.113.9'],
    ['hops without a header are the peer', 1, '10.0.0.1', undefined, '10.0.0.1'],
    ['hops count behind a Unix socket', 1, undefined, '203.0.113.9', '203.0.113.9'],
  ]
  test.each(table)('%s', (_, trust, peer, header, client) => {
    expect(find(trust, peer, header)).toMatchObject({ address: client, nonsense: false })
  })

  test('nobody is trusted unless told', () => {
    const trust = undefined
    expect(clientAddress({ peer: '::1', forwarded: '1.1.1.1', trust })).toEqual({
      address: '::1',
      nonsense: false,
      hops: 0,
    })
  })

  test('a peer without an address is in no list', () => {
    expect(find('loopback', undefined, '1.1.1.1')).toEqual({ address: undefined, nonsense: false, hops: 0 })
  })

  test('hops tells how many entries were used', () => {
    expect(find(3, '10.0.0.1', '1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4')).toMatchObject({ address: '2.2.2.2', hops: 3 })
  })

  test('no more than 32 entries are used', () => {
    const forwarded = Array.from({ length: 40 }, (_, i) => `10.0.0.${i}`).join()
    expect(find(['10.0.0.0/8'], '10.1.1.1', forwarded)).toEqual({ address: '10.0.0.8', nonsense: false, hops: 32 })
  })
})

describe('an entry that is no address ends the search', () => {
  test.each(['unknown', '_hidden', 'garbage', '1.2.3', '"', '10.0.0.1 10.0.0.2', 'x'.repeat(500)])('%s', (entry) => {
    const last = { address: '10.0.0.2', nonsense: true, hops: 1 }
    expect(find(['10.0.0.0/8'], '10.0.0.1', `203.0.113.9, ${entry}, 10.0.0.2`)).toEqual(last)
    expect(find(3, '10.0.0.1', `203.0.113.9, ${entry}, 10.0.0.2`)).toEqual(last)
    expect(find(1, '10.0.0.1', entry)).toEqual({ address: '10.0.0.1', nonsense: true, hops: 0 })
  })

  test('a peer that is no address', () => {
    expect(find(1, '/run/app.sock', '1.1.1.1')).toEqual({ address: undefined, nonsense: true, hops: 0 })
  })

  test('an entry cut off at 8 KiB, though the rest of it is an address', () => {
    const forwarded = `111.1.1.1,${' '.repeat(8192 - '11.1.1.1, 10.0.0.2'.length)} 10.0.0.2`
    expect(forwarded.slice(-8192)).toMatch(/^11\.1\.1\.1,/)
    expect(find(2, '10.0.0.1', forwarded)).toEqual({ address: '10.0.0.2', nonsense: true, hops: 1 })
  })
})

describe('Forwarded (RFC 7239)', () => {
  const table: [promise: string, header: string, client: string][] = [
    ['other parameters are skipped', 'for=192.0.2.43;proto=http;by=203.0.113.43', '192.0.2.43'],
    ['the last element counts', 'for=192.0.2.43, for="[2001:db8:cafe::17]:4711"', '2001:db8:cafe::17'],
    ['names have no case', 'Proto=https;FOR="192.0.2.43"', '192.0.2.43'],
    ['quoted text has escapes', 'for="\\[2001:db8::1\\]";host="a\\",b"', '2001:db8::1'],
    ['commas and semicolons may be quoted', 'by="a,b;for=1.1.1.1";for=192.0.2.43;host=","', '192.0.2.43'],
    ['values that should be quoted need not be', 'for=[2001:db8::1]:80', '2001:db8::1'],
    ['spaces and empty parameters do no harm', ' ; for=192.0.2.43 ;; proto=http; ', '192.0.2.43'],
    ['an open quote of the client hides nothing', 'for=", for=192.0.2.43', '192.0.2.43'],
    ['an open quote hides nothing that is quoted', 'for="x, for="[2001:db8::1]"', '2001:db8::1'],
  ]
  test.each(table)('%s', (_, header, client) => {
    expect(find(1, '10.0.0.1', header, 'forwarded')).toEqual({ address: client, nonsense: false, hops: 1 })
  })

  test.each([
    ['no for', 'proto=http;by=1.1.1.1'],
    ['two of them', 'for=1.1.1.1;for=2.2.2.2'],
    ['an unknown client', 'for=unknown'],
    ['a hidden client', 'for="_gazonk"'],
    ['an empty value', 'for='],
    ['an address alone', '1.1.1.1'],
    ['text behind a quote', 'for="1.1.1.1"x'],
    ['an open quote', 'for="1.1.1.1'],
    ['a space before =', 'for =1.1.1.1'],
  ])('an element with %s is nonsense', (_, element) => {
    const last = { address: '10.0.0.2', nonsense: true, hops: 1 }
    expect(find(2, '10.0.0.1', `for=9.9.9.9, ${element}, for=10.0.0.2`, 'forwarded')).toEqual(last)
  })
})

describe('a client cannot choose its counter', () => {
  const proxy = fc.nat(0xffffff).map((n) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`)
  const outside = fc
    .tuple(addresses, notations)
    .filter(([{ plain }]) => plain.length === 8 && (plain[0] as number) >> 8 !== 10)
  const spoofed = fc
    .array(
      fc.oneof(
        fc.constantFrom('"', '\\', ',', ';', '=', 'for=', '10.0.0.1', ' ', '[', ':'),
        fc.ipV4(),
        fc.ipV6(),
        fc.string(),
      ),
      { maxLength: 20 },
    )
    .chain((parts) => fc.constantFrom(parts.join(''), parts.join(',').repeat(200)))
  const element = {
    'x-forwarded-for': (address: string) => address,
    forwarded: (address: string) =>
      `proto=https;for="${address.includes(':') ? `[${address}]:443` : address}";host="a\\"b,c"`,
  }

  test.each(['x-forwarded-for', 'forwarded'] as const)('whatever it writes into %s', (header) => {
    fc.assert(
      fc.property(
        spoofed,
        outside,
        fc.array(proxy, { maxLength: 4 }),
        proxy,
        (mine, [client, notation], proxies, peer) => {
          const added = [notation(client.groups), ...proxies].map(element[header]).join(', ')
          const expected = { address: formatAddress(client.plain), nonsense: false, hops: proxies.length + 1 }
          for (const forwarded of [added, `${mine}, ${added}`, `${mine},${added}`]) {
            expect(find(['10.0.0.0/8'], peer, forwarded, header)).toEqual(expected)
            expect(find(proxies.length + 1, peer, forwarded, header)).toEqual(expected)
          }
        },
      ),
      runs(500),
    )
  })

  test.each(['x-forwarded-for', 'forwarded'] as const)('and 256 KiB of anything in %s does not stop it', (header) => {
    for (const part of ['"', '\\', '\\"', ',', '",', ';', 'for=', 'for=1.1.1.1;', '1.1.1.1,', ' ']) {
      const forwarded = `${part.repeat((1 << 18) / part.length)}, ${element[header]('203.0.113.9')}`
      expect(find(1, '10.0.0.1', forwarded, header).address).toBe('203.0.113.9')
      expect(find(32, '10.0.0.1', part.repeat((1 << 18) / part.length), header).hops).toBeLessThanOrEqual(32)
    }
  })

  test.each([' ', '\t', 'a', '=', ';', '\\', '"', '\\"', 'a=;', 'for', ' ;'])(
    'and an element full of %j is soon read',
    (part) => {
      // Each takes microseconds; if they grew with the square of its length, they would take minutes together.
      const filling = part.repeat(8000 / part.length)
      for (const element of [`for=1.1.1.1;${filling}x`, `for="${filling}x`, `for=${filling}x`, `a=${filling}" x`]) {
        for (let i = 0; i < 300; i++) find(1, '10.0.0.1', element, 'forwarded')
      }
    },
  )
})

test('a range has the addresses that it has in Node', () => {
  const ranges = fc.tuple(addresses, fc.nat(128)).map(([{ plain }, bits]) => {
    const prefix = 8 + (bits % (plain.length * 16 - 7))
    const bitsOf = plain.map((group) => group.toString(2).padStart(16, '0')).join('')
    const masked = bitsOf.slice(0, prefix).padEnd(bitsOf.length, '0')
    return { prefix, first: plain.map((_, i) => Number.parseInt(masked.slice(16 * i, 16 * i + 16), 2)) }
  })
  const text = (groups: readonly number[]) => (groups.length === 8 ? colons(groups) : dotted(groups))
  const family = (groups: readonly number[]) => (groups.length === 8 ? 'ipv6' : 'ipv4')
  fc.assert(
    fc.property(
      ranges,
      fc.oneof(
        addresses.map(({ plain }) => plain),
        ipv4,
      ),
      fc.nat(127),
      ({ first, prefix }, other, bit) => {
        // Ranges around IPv4 are refused.
        fc.pre(first.length === 2 || (first[0] as number) > 0xff)
        const list = new BlockList()
        list.addSubnet(text(first), prefix, family(first))
        const near = first.map((group, i) => (i === bit >> 4 ? group ^ (1 << (bit & 15)) : group))
        for (const address of [first, near, other]) {
          const { hops } = find([`${text(first)}/${prefix}`], text(address), '1.1.1.1')
          expect(hops === 1, `${text(address)} in ${text(first)}/${prefix}`).toBe(
            list.check(text(address), family(address)),
          )
        }
      },
    ),
    runs(500),
  )
})

describe('a wrong trustProxy is refused', () => {
  const refused = (option: unknown) => {
    try {
      trustOf(option as TrustProxy)
    } catch (error) {
      if (error instanceof HeadgateError) return error
    }
    throw new Error('it was accepted')
  }

  test.each([
    true,
    Infinity,
    '*',
    ['*'],
    ['0.0.0.0/0'],
    ['::/0'],
    ['10.0.0.1', '1.2.3.4/0'],
    ['0.0.0.0/1', '128.0.0.0/1'],
    ['2000::/3'],
    ['::ffff:0:0/96'],
    ['::ffff:0.0.0.0/96'],
    ['64:ff9b::/96'],
    ['::/64'],
    ['64:ff9b::/32'],
    ['::ffff:128.0.0.0/97'],
  ])('HG_TRUST_EVERYTHING: %j', (option) => expect(refused(option).code).toBe('HG_TRUST_EVERYTHING'))

  test.each([
    '',
    'localhost',
    '10.0.0.0/33',
    '::1/129',
    '10.0.0.0/08',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/255.0.0.0',
    '10.0.0',
    '10.0.0.1:80',
    '[::1]',
    'fe80::1%eth0',
    ' 10.0.0.1',
    'Loopback',
    '10.0.0.0/-1',
    'x'.repeat(1000),
    1,
    null,
    undefined,
    {},
    [['10.0.0.0/8']],
  ])('HG_ADDRESS_INVALID: [%j]', (entry) => {
    expect(refused(['10.0.0.0/8', entry])).toMatchObject({ code: 'HG_ADDRESS_INVALID', value: entry })
  })

  test.each([
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['192.168.1.1/16', '192.168.0.0/16'],
    ['2001:db8::1/32', '2001:db8::/32'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
  ])('HG_ADDRESS_INVALID: %s should be %s', (entry, meant) => {
    expect(refused([entry])).toMatchObject({
      code: 'HG_ADDRESS_INVALID',
      message: expect.stringContaining(`"${meant}"`),
    })
  })

  test.each([0, 33, -1, 1.5, Number.NaN, false, null, undefined, '1', '10.0.0.0/8', 'local', {}])(
    'HG_OPTION_INVALID: %j',
    (option) => {
      expect(refused(option).code).toBe('HG_OPTION_INVALID')
    },
  )
})
