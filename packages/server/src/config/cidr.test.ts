import { expect, test } from 'vitest'
import { cidrCovers, cidrFault, parseCidr, proxyFault } from './cidr.ts'

const covers = (all: string, one: string) => {
  const [wide, narrow] = [parseCidr(all), parseCidr(one)]
  return wide !== undefined && narrow !== undefined && cidrCovers(wide, narrow)
}

test.each([
  ['10.0.0.0/8', '10.255.0.1', true],
  ['10.0.0.0/8', '11.0.0.0', false],
  ['10.0.0.0/8', '10.0.0.0/7', false],
  ['0.0.0.0/0', '255.255.255.255', true],
  ['2001:db8::/32', '2001:db8:ffff::1', true],
  ['2001:db8::/32', '2001:db9::', false],
  ['::/0', '10.0.0.1', false],
  ['10.0.0.0/8', '::ffff:10.1.2.3', true],
  ['::ffff:0:0/96', '10.1.2.3', true],
  ['fe80::1', 'fe80:0:0:0:0:0:0:1', true],
])('%s covers %s: %s', (all, one, expected) => {
  expect(covers(all, one)).toBe(expected)
})

test.each(['10.0.0', '10.0.0.0/33', '10.0.0.0/08', '010.0.0.1', '::/129', 'fe80::1%eth0', '', '/8', '10.0.0.1/8'])(
  '%j is refused',
  (text) => {
    expect(cidrFault(text)).toBeDefined()
  },
)

test.each(['0.0.0.0/0', '::/0', '0.0.0.0/1', '*'])('nobody trusts %s', (text) => {
  expect(proxyFault(text)).toBeDefined()
})
