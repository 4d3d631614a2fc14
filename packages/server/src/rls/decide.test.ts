import { memory, type Store } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test, vi } from 'vitest'
import { parseRules } from '../config/load.ts'
import { readEnvoyConfig } from '../envoy/config.ts'
import { Service } from '../service.ts'
import { Telemetry } from '../telemetry/index.ts'
import { Decider } from './decide.ts'
import type { KeyGate } from './limits.ts'
import type { Descriptor, RateLimitResponse } from './messages.ts'

const HOUR_MS = 3_600_000
/** A Monday, ten minutes into an hour. */
const START_MS = Date.UTC(2026, 10, 16, 12, 10)

type Asked = string | readonly [entries: string, more: Partial<Descriptor>]

/** `user=ann, path=/a` as a descriptor. */
function descriptorOf(asked: Asked): Descriptor {
  const [text, more] = typeof asked === 'string' ? [asked, {}] : asked
  const entries = text.split(', ').map((each) => {
    const cut = each.indexOf('=')
    return { key: each.slice(0, cut), value: each.slice(cut + 1) }
  })
  return { entries, isNegativeHits: false, ...more }
}

function deciding(yaml: string, more = '', { store, ...envoy }: { store?: Store; [option: string]: unknown } = {}) {
  const clock = fakeClock(START_MS)
  const { raw } = readEnvoyConfig(`domain: web\ndescriptors:\n${yaml}`)
  const rules = parseRules(`${more}\nenvoy: ${JSON.stringify({ domains: [raw], ...envoy })}`).rules
  const service = new Service(rules, store ?? memory({ clock }))
  const decider = new Decider()
  const decide = async (asked: readonly Asked[], hitsAddend = 0, domain = 'web') => {
    const request = { domain, descriptors: asked.map(descriptorOf), hitsAddend }
    return decider.decide(service.rules.envoy, request)
  }
  const ask = async (...asked: Parameters<typeof decide>): Promise<RateLimitResponse> =>
    (await decide(...asked)).response
  /** `OK 3`, or `OVER_LIMIT 0`, for each descriptor. */
  const told = async (...asked: readonly Asked[]) => {
    const { overallCode, statuses } = await ask(asked)
    return [overallCode, ...statuses.map(({ code, limitRemaining }) => `${code} ${limitRemaining}`)]
  }
  return { clock, service, decide, ask, told }
}

const limit = (requests: number, unit = 'hour') => `rate_limit: { unit: ${unit}, requests_per_unit: ${requests} }`
const look = { hitsAddend: 0 }
const charge = (units: number) => ({ hitsAddend: units })
const give = (units: number) => ({ hitsAddend: units, isNegativeHits: true })
/** What admins say of a key. */
const exception = { id: '1', limit: 'web-user', key: 'ann', untilMs: Date.now() + HOUR_MS, reason: '', by: '' }

describe('the limit of a descriptor', () => {
  test('is that of its value, else of the first pattern that it fits, else of its key alone', async () => {
    const { ask } = deciding(`
  - { key: path, ${limit(1)} }
  - { key: path, value: /a*, ${limit(2)} }
  - { key: path, value: /ab*, ${limit(3)} }
  - { key: path, value: /abc, ${limit(4)} }
  - { key: path, value: /x/*/z*.png, ${limit(5)} }
  - { key: path, value: /o/*/o/, ${limit(6)} }
`)
    const limitOf = async (path: string) =>
      (await ask([`path=${path}`])).statuses[0]?.currentLimit?.requestsPerUnit ?? 'none'
    expect(await limitOf('/abc')).toBe(4)
    expect(await limitOf('/abd')).toBe(2)
    expect(await limitOf('/x')).toBe(1)
    expect(await limitOf('')).toBe(1)
    expect(await limitOf('/x/y/z1.png')).toBe(5)
    expect(await limitOf('/x/z.png')).toBe(1)
    expect(await limitOf('/o//o/')).toBe(6)
    expect(await limitOf('/o/')).toBe(1) // both ends must be there, and not the same letters
    expect(await limitOf('/x/y/1.png')).toBe(1)
  })

  test('is found by all its entries in order, at the last of them', async () => {
    const { ask } = deciding(`
  - key: tenant
    ${limit(9)}
    descriptors:
      - { key: path, ${limit(3)} }
      - { key: method, descriptors: [{ key: path, ${limit(2)} }] }
`)
    const limitOf = async (text: string) => (await ask([text])).statuses[0]?.currentLimit?.requestsPerUnit ?? 'none'
    expect(await limitOf('tenant=a')).toBe(9)
    expect(await limitOf('tenant=a, path=/')).toBe(3)
    expect(await limitOf('path=/, tenant=a')).toBe('none')
    expect(await limitOf('tenant=a, path=/, method=GET')).toBe('none')
    expect(await limitOf('tenant=a, method=GET')).toBe('none')
    expect(await limitOf('tenant=a, method=GET, path=/')).toBe(2)
    expect(await limitOf('other=a')).toBe('none')
  })

  test('counts each value by itself, and all that a shared pattern fits together', async () => {
    const { told } = deciding(`
  - { key: user, ${limit(1)} }
  - { key: path, value: /a*, ${limit(1)} }
  - { key: host, value: "*.example", share_threshold: true, ${limit(2)} }
`)
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    expect(await told('user=bob')).toEqual(['OK', 'OK 0'])
    expect(await told('user=')).toEqual(['OK', 'OK 0'])
    expect(await told('user=')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told('path=/ab')).toEqual(['OK', 'OK 0'])
    expect(await told('path=/ac')).toEqual(['OK', 'OK 0'])
    expect(await told('path=/ab')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told('host=a.example')).toEqual(['OK', 'OK 1'])
    expect(await told('host=b.example')).toEqual(['OK', 'OK 0'])
    expect(await told('host=c.example')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })

  test('is none in a domain that nobody has configured, and that passes', async () => {
    const { ask } = deciding(`  - { key: user, ${limit(0)} }`)
    expect(await ask(['user=ann'], 0, 'other')).toEqual({
      overallCode: 'OK',
      statuses: [{ code: 'OK', limitRemaining: 0 }],
      headers: [],
    })
    expect((await ask([['user=ann', { limit: { requestsPerUnit: 0, unit: 2 } }]], 0, 'other')).overallCode).toBe('OK')
  })

  test('may be none at all, which leaves as much as there can be', async () => {
    const { ask } = deciding('  - { key: user, rate_limit: { unlimited: true } }')
    expect((await ask(['user=ann'])).statuses).toEqual([{ code: 'OK', limitRemaining: 4_294_967_295 }])
  })
})

describe('several descriptors are one decision', () => {
  const yaml = `
  - { key: user, ${limit(2)} }
  - { key: all, value: x, ${limit(5)} }
`
  test('with a status for each, in order, also for those without a limit', async () => {
    const { ask } = deciding(yaml)
    const { statuses } = await ask(['all=x', 'nobody=1', 'user=ann'])
    expect(statuses.map(({ currentLimit }) => currentLimit?.requestsPerUnit)).toEqual([5, undefined, 2])
  })

  test('all are charged, or none is', async () => {
    const { told } = deciding(yaml)
    expect(await told('user=ann', 'all=x')).toEqual(['OK', 'OK 1', 'OK 4'])
    expect(await told('user=ann', 'all=x')).toEqual(['OK', 'OK 0', 'OK 3'])
    expect(await told('user=ann', 'all=x')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0', 'OK 3'])
    expect(await told('all=x')).toEqual(['OK', 'OK 2'])
  })

  test('the same one twice is charged twice, and has two statuses', async () => {
    const { told } = deciding(yaml)
    expect(await told('user=ann', 'user=ann')).toEqual(['OK', 'OK 0', 'OK 0'])
    expect(await told('user=bob', 'user=bob', 'user=bob')).toEqual(['OVER_LIMIT', 'OK 2', 'OK 2', 'OVER_LIMIT 0'])
    expect(await told('user=bob')).toEqual(['OK', 'OK 1'])
  })
})

describe('how much is charged', () => {
  const yaml = `  - { key: user, ${limit(10)} }`

  test('is 1, or what the request says, or what the descriptor says', async () => {
    const { ask } = deciding(yaml)
    const left = async (asked: Asked, hits?: number) => (await ask([asked], hits)).statuses[0]?.limitRemaining
    expect(await left('user=ann')).toBe(9)
    expect(await left('user=ann', 3)).toBe(6)
    expect(await left(['user=ann', charge(2)], 3)).toBe(4)
    expect(await left(['user=ann', look], 3)).toBe(4)
  })

  test('a look charges nothing, and is over only when more than the limit is counted', async () => {
    const { told } = deciding(yaml)
    for (let i = 0; i < 3; i++) expect(await told(['user=ann', look])).toEqual(['OK', 'OK 10'])
    expect(await told(['user=ann', charge(10)])).toEqual(['OK', 'OK 0'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 0'])
    expect(await told(['user=ann', charge(1)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told(['user=ann', look])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })

  test('a charge after a look is booked past the limit; one without a look leaves no trace', async () => {
    const { told } = deciding(yaml)
    await told(['user=ann', look])
    expect(await told(['user=ann', charge(25)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told('user=ann')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told(['user=bob', charge(25)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told('user=bob')).toEqual(['OK', 'OK 9'])
    // Only who says by the descriptor how much may speak of what has happened.
    await told(['user=cyd', look])
    expect(await told(['user=cyd', charge(10)])).toEqual(['OK', 'OK 0'])
    expect(await told('user=cyd')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told(['user=cyd', look])).toEqual(['OK', 'OK 0'])
  })

  test('values of any length are counted apart, and take up no more than short ones', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(10)} }`)
    const { gate } = service.rules.envoy ?? {}
    const [asked, changed] = [vi.spyOn(gate as KeyGate, 'takeKeys'), vi.spyOn(gate as KeyGate, 'changeKeys')]
    const long = `user=${'x'.repeat(2 ** 20)}`
    await told([`${long}a`, look])
    expect(await told([`${long}a`, charge(25)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told([`${long}a`, look])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told([`${long}b`, look])).toEqual(['OK', 'OK 10'])
    expect(await told([`${long}b`, charge(10)])).toEqual(['OK', 'OK 0'])
    const keys = [...asked.mock.calls, ...changed.mock.calls].flatMap(([parts]) => parts.map(({ key = '' }) => key))
    expect(keys.length).toBeGreaterThan(5)
    expect(Math.max(...keys.map((key) => key.length))).toBeLessThan(100)
  })

  test('looks at many keys, again and again, are noted once each', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(10)} }`)
    const changed = vi.spyOn(service.rules.envoy?.gate as KeyGate, 'changeKeys')
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 11_000; i++) await told([`user=${i}${'x'.repeat(200)}`, look])
    expect(changed).toHaveBeenCalledTimes(11_000)
    expect(changed.mock.calls.every(([[part]]) => (part?.key ?? '').length < 30)).toBe(true)
  })

  test('what was looked at is booked, though another descriptor refuses', async () => {
    const { told } = deciding(`${yaml}\n  - { key: none, value: x, ${limit(0)} }`)
    await told(['user=ann', look])
    expect(await told(['user=ann', charge(4)], 'none=x')).toEqual(['OVER_LIMIT', 'OK 10', 'OVER_LIMIT 0'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 6'])
  })

  test('negative hits give back, and never more than was charged', async () => {
    const { told, clock } = deciding(yaml)
    const back = (hitsAddend: number) => ['user=ann', { hitsAddend, isNegativeHits: true }] as const
    await told(['user=ann', charge(8)])
    expect(await told(back(5))).toEqual(['OK', 'OK 7'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 7'])
    expect(await told(back(100))).toEqual(['OK', 'OK 10'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 10'])
    await told(['user=ann', charge(10)])
    clock.advance(HOUR_MS)
    expect(await told(back(3))).toEqual(['OK', 'OK 10'])
  })

  test('what is given back leaves as much as it says, also where more than the limit is counted', async () => {
    const { told } = deciding(yaml)
    await told(['user=ann', look])
    await told(['user=ann', charge(50)])
    expect(await told(['user=ann', give(1)])).toEqual(['OK', 'OK 0'])
    expect(await told(['user=ann', give(42)])).toEqual(['OK', 'OK 3'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 3'])
    expect(await told(['user=ann', give(2)], ['user=bob', charge(11)])).toEqual(['OVER_LIMIT', 'OK 3', 'OVER_LIMIT 0'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 3'])
  })

  test('what somebody never heard of is taken back, also what was given back', async () => {
    const { told, decide } = deciding(yaml)
    await told(['user=ann', charge(4)], ['user=bob', charge(6)])
    const { undo } = await decide([['user=ann', give(100)], ['user=bob', give(3)], 'user=cyd'])
    expect(await told(['user=ann', look], ['user=bob', look], ['user=cyd', look])).toEqual([
      'OK',
      'OK 10',
      'OK 7',
      'OK 9',
    ])
    undo()
    expect(await told(['user=ann', look], ['user=bob', look], ['user=cyd', look])).toEqual([
      'OK',
      'OK 6',
      'OK 4',
      'OK 10',
    ])
  })

  test('a give of a key that is blocked refuses nobody, and the rest is charged', async () => {
    const { told, service } = deciding(yaml)
    await service.block(exception)
    expect(await told(['user=ann', give(1)], ['user=bob', charge(10)])).toEqual(['OK', 'OK 0', 'OK 0'])
    expect(await told(['user=ann', give(1)], 'user=bob')).toEqual(['OVER_LIMIT', 'OK 0', 'OVER_LIMIT 0'])
  })

  test('a charge beside a look is not one after it', async () => {
    const { told } = deciding(yaml)
    expect(await told(['user=ann', look], ['user=ann', charge(25)])).toEqual(['OVER_LIMIT', 'OK 10', 'OVER_LIMIT 0'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 10'])
  })

  test('a look at a key with another limit is over when more than that is counted', async () => {
    const { told, service } = deciding(yaml)
    service.override({ ...exception, to: '3/hour' })
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 3'])
    expect(await told(['user=ann', charge(3)])).toEqual(['OK', 'OK 0'])
    expect(await told(['user=ann', look])).toEqual(['OK', 'OK 0'])
    expect(await told(['user=ann', charge(1)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told(['user=ann', look])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })

  test('more than can be counted exactly is refused like all that does not fit', async () => {
    const { told } = deciding(yaml)
    expect(await told(['user=ann', charge(Number.MAX_SAFE_INTEGER)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told('user=ann')).toEqual(['OK', 'OK 9'])
  })
})

describe('windows start at multiples of their length since 1970', () => {
  test.each([
    ['second', Date.UTC(2026, 10, 16, 12, 10, 1)],
    ['minute', Date.UTC(2026, 10, 16, 12, 11)],
    ['hour', Date.UTC(2026, 10, 16, 13)],
    ['day', Date.UTC(2026, 10, 17)],
    ['week', Date.UTC(2026, 10, 19)], // 1970 began on a Thursday
    ['month', Math.ceil(START_MS / (30 * 24 * HOUR_MS)) * 30 * 24 * HOUR_MS],
    ['year', Math.ceil(START_MS / (365 * 24 * HOUR_MS)) * 365 * 24 * HOUR_MS],
  ])('a %s', async (unit, endMs) => {
    const { ask, clock } = deciding(`  - { key: user, ${limit(1, unit)} }`)
    const { statuses } = await ask(['user=ann'])
    expect(statuses).toMatchObject([{ code: 'OK', secondsUntilReset: (endMs - START_MS) / 1000 }])
    clock.set(endMs - 1)
    expect((await ask(['user=ann'])).statuses).toMatchObject([{ code: 'OVER_LIMIT', secondsUntilReset: 1 }])
    clock.set(endMs)
    expect((await ask(['user=ann'])).overallCode).toBe('OK')
  })
})

test('a key that nobody used yet has a window, too', async () => {
  const { ask } = deciding(`  - { key: user, ${limit(1)} }`)
  const { secondsUntilReset = 0 } = (await ask([['user=ann', look]])).statuses[0] ?? {}
  expect(secondsUntilReset).toBeGreaterThan(0)
  expect(secondsUntilReset).toBeLessThanOrEqual(3600)
})

describe('words of a configuration', () => {
  test('shadow_mode refuses nobody, and tells what is left', async () => {
    const { told, service } = deciding(`  - { key: user, shadow_mode: true, ${limit(1)} }`)
    const telemetry = new Telemetry()
    telemetry.attach(service)
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    expect(await telemetry.metrics()).toContain(
      'headgate_decisions_total{limit="web-user",outcome="observed-denied"} 1',
    )
  })

  test('quota_mode refuses only when all such limits are used up, and then nothing is charged', async () => {
    const { told } = deciding(`
  - { key: a, quota_mode: true, ${limit(1)} }
  - { key: b, quota_mode: true, ${limit(2)} }
  - { key: c, ${limit(9)} }
`)
    expect(await told('a=1', 'b=1', 'c=1')).toEqual(['OK', 'OK 0', 'OK 1', 'OK 8'])
    expect(await told('a=1', 'b=1', 'c=1')).toEqual(['OK', 'OVER_LIMIT 0', 'OK 0', 'OK 7'])
    expect((await told('a=1', 'b=1', 'c=1')).slice(0, 3)).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0', 'OVER_LIMIT 0'])
    expect(await told('c=1')).toEqual(['OK', 'OK 6'])
    expect(await told('a=1')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })

  test('quotas that are in shadow_mode refuse nobody, however many are used up', async () => {
    const { told } = deciding(`
  - { key: a, quota_mode: true, shadow_mode: true, ${limit(0)} }
  - { key: b, quota_mode: true, shadow_mode: true, ${limit(0)} }
`)
    expect(await told('a=1')).toEqual(['OK', 'OK 0'])
    expect(await told('a=1', 'b=1')).toEqual(['OK', 'OK 0', 'OK 0'])
  })

  test('a quota in shadow_mode leaves the others as they are', async () => {
    const { told } = deciding(`
  - { key: a, quota_mode: true, ${limit(1)} }
  - { key: b, quota_mode: true, shadow_mode: true, ${limit(9)} }
`)
    expect(await told('a=1', 'b=1')).toEqual(['OK', 'OK 0', 'OK 8'])
    expect(await told('a=1', 'b=1')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0', 'OK 8'])
  })

  test('what passes because a quota has room is charged, also while the store fails', async () => {
    const store: Store = { run: () => Promise.reject(new Error('connection lost')) }
    const yaml = `
  - { key: a, quota_mode: true, ${limit(1)} }
  - { key: b, quota_mode: true, ${limit(9)} }
  - { key: c, ${limit(2)} }
`
    const { told } = deciding(yaml, '', { store })
    expect(await told('a=1', 'b=1', 'c=1')).toEqual(['OK', 'OK 0', 'OK 8', 'OK 1'])
    expect(await told('a=1', 'b=1', 'c=1')).toEqual(['OK', 'OVER_LIMIT 0', 'OK 7', 'OK 0'])
    expect(await told('a=1', 'b=1', 'c=1')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0', 'OK 7', 'OVER_LIMIT 0'])
    const denying = deciding(yaml, '', { store, onStoreError: 'deny' })
    await expect(denying.told('a=1', 'b=1')).rejects.toThrow('the store does not answer')
  })

  test('a limit does not hold where another replaces it', async () => {
    const { told } = deciding(`
  - { key: user, rate_limit: { name: usual, unit: hour, requests_per_unit: 1 } }
  - { key: plan, value: gold, rate_limit: { name: gold, unit: hour, requests_per_unit: 9, replaces: [{ name: usual }] } }
  - { key: plan, value: free, rate_limit: { unlimited: true, replaces: [{ name: usual }] } }
`)
    expect(await told('user=ann', 'plan=gold')).toEqual(['OK', 'OK 0', 'OK 8'])
    expect(await told('user=ann', 'plan=free')).toEqual(['OK', 'OK 0', 'OK 4294967295'])
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    expect(await told('user=ann')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told('user=ann', 'plan=gold')).toEqual(['OK', 'OK 0', 'OK 7'])
  })

  test('a name is told with the limit', async () => {
    const { ask } = deciding('  - { key: user, rate_limit: { name: Usual, unit: day, requests_per_unit: 3 } }')
    expect((await ask(['user=ann'])).statuses[0]?.currentLimit).toEqual({ requestsPerUnit: 3, unit: 4, name: 'Usual' })
  })
})

describe('a limit that the caller brings along', () => {
  const brought = (requestsPerUnit: number, unit = 3) => ({ limit: { requestsPerUnit, unit } })

  test('holds in place of the configured one, on the same counts', async () => {
    const { told } = deciding(`  - { key: user, ${limit(2)} }`)
    expect(await told('user=ann')).toEqual(['OK', 'OK 1'])
    expect(await told(['user=ann', brought(5)])).toEqual(['OK', 'OK 3'])
    expect(await told('user=ann')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told(['user=ann', { ...brought(2), ...look }])).toEqual(['OK', 'OK 0'])
  })

  test('holds where none is configured, for the descriptor as it is', async () => {
    const { told } = deciding(`  - { key: user, shadow_mode: true, ${limit(2)} }`)
    expect(await told(['other=a', brought(1)])).toEqual(['OK', 'OK 0'])
    expect(await told(['other=b', brought(1)])).toEqual(['OK', 'OK 0'])
    expect(await told(['other=a', brought(1)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    expect(await told(['user=a', brought(1)])).toEqual(['OK', 'OK 0'])
    expect(await told(['user=a', brought(1)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })
})

describe('a limit that the caller brings along with another unit', () => {
  const brought = (requestsPerUnit: number, unit: number) => ({ limit: { requestsPerUnit, unit } })

  test('counts by itself', async () => {
    const { told, clock } = deciding(`  - { key: user, ${limit(2)} }`)
    expect(await told(['user=ann', brought(1, 2)])).toEqual(['OK', 'OK 0'])
    expect(await told('user=ann')).toEqual(['OK', 'OK 1'])
    expect(await told(['user=ann', brought(1, 2)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    clock.advance(60_000)
    expect(await told(['user=ann', brought(1, 2)])).toEqual(['OK', 'OK 0'])
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    expect(await told(['other=a', brought(1, 3)])).toEqual(['OK', 'OK 0'])
    expect(await told(['other=a', brought(1, 2)])).toEqual(['OK', 'OK 0'])
    expect(await told(['other=a', brought(1, 3)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })

  test('watches only, or is none, where an admin says so of the configured one', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(2)} }`)
    for (const unit of [2, 3]) {
      service.setMode('web-user', { mode: 'observe', enforcePercent: 100 })
      expect(await told(['user=ann', brought(0, unit)])).toEqual(['OK', 'OK 0'])
      service.setMode('web-user', { mode: 'off', enforcePercent: 100 })
      expect((await told(['user=ann', brought(0, unit)]))[0]).toBe('OK')
      service.setMode('web-user', { mode: 'enforce', enforcePercent: 100 })
      expect(await told(['user=ann', brought(0, unit)])).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    }
  })

  test('is looked after under a name of its own', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(2)} }`)
    const asked = ['other=a', brought(1, 3)] as const
    const key = ['web', 'hour', '[["other","a"]]']
    await told(asked)
    expect(service.rules.limits['brought-along']).toMatchObject({ by: ['domain', 'unit', 'descriptor'] })
    await service.reset('brought-along', key)
    expect(await told(asked)).toEqual(['OK', 'OK 0'])
    service.override({ ...exception, limit: 'brought-along', key, to: '5/hour' })
    expect(await told(asked)).toEqual(['OK', 'OK 3'])
    await service.block({ ...exception, limit: 'brought-along', key })
    expect(await told(asked)).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    service.setMode('brought-along', { mode: 'observe', enforcePercent: 100 })
    expect((await told(asked))[0]).toBe('OK')
    service.setMode('brought-along', { mode: 'off', enforcePercent: 100 })
    expect((await told(asked))[0]).toBe('OK')
  })
})

describe('the service around it', () => {
  test('counts a request once: by the look that refuses it, or by its charge', async () => {
    const { told, service } = deciding(`
  - { key: user, ${limit(5)} }
  - { key: a, quota_mode: true, ${limit(1)} }
  - { key: b, quota_mode: true, ${limit(2)} }
`)
    const telemetry = new Telemetry()
    telemetry.attach(service)
    const counted = async (name: string) => {
      const text = await telemetry.metrics()
      const of = (outcome: string) =>
        Number(text.match(new RegExp(`decisions_total{limit="${name}",outcome="${outcome}"} (\\d+)`))?.[1] ?? 0)
      return ['allowed', 'denied', 'observed-denied'].map(of)
    }
    await told(['user=ann', look])
    await told(['user=ann', charge(50)])
    expect(await counted('web-user')).toEqual([1, 0, 0])
    for (let i = 0; i < 3; i++) await told(['user=ann', look])
    await told(['user=ann', give(1)])
    expect(await counted('web-user')).toEqual([1, 3, 0])
    for (let i = 0; i < 5; i++) await told('a=1', 'b=1')
    expect([await counted('web-a'), await counted('web-b')]).toEqual([
      [1, 3, 1],
      [2, 3, 0],
    ])
  })

  test('tells callers in header fields what is answered', async () => {
    const { ask } = deciding(
      `
  - { key: user, ${limit(5)} }
  - { key: a, quota_mode: true, ${limit(1)} }
  - { key: b, quota_mode: true, ${limit(2, 'minute')} }
  - { key: c, ${limit(9)} }
`,
      '',
      { headers: ['draft-6'] },
    )
    const fields = async (...asked: readonly Asked[]) => {
      const { headers } = await ask(asked)
      const of = (name: string) => headers.find(([each]) => each === name)?.[1]
      return [of('RateLimit-Limit'), of('RateLimit-Remaining'), of('Retry-After')]
    }
    expect(await fields(['user=ann', look])).toEqual(['5', '5', undefined])
    await ask([['user=ann', charge(7)]])
    expect(await fields(['user=ann', look])).toEqual(['5', '0', '3000'])
    expect(await fields(['user=ann', give(4)])).toEqual(['5', '2', undefined])
    await ask(['a=1', 'b=1'])
    expect(await fields('a=1', 'b=1', 'c=1')).toEqual(['2', '0', undefined])
    // One of them has room again in a minute.
    expect(await fields('a=1', 'b=1', 'c=1')).toEqual(['1', '0', '60'])
  })

  test('counts decisions and knows the keys that ask most', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(1)} }\n  - { key: all, value: x, ${limit(9)} }`)
    const telemetry = new Telemetry()
    telemetry.attach(service)
    await told('user=ann', 'all=x')
    await told('user=ann', 'all=x')
    const text = await telemetry.metrics()
    expect(text).toContain('headgate_decisions_total{limit="web-user",outcome="allowed"} 1')
    expect(text).toContain('headgate_decisions_total{limit="web-user",outcome="denied"} 1')
    expect(text).toContain('headgate_decision_duration_seconds_count 2')
    expect(telemetry.top('web-user', 1)).toMatchObject([{ key: 'ann', denied: 1 }])
  })

  test('looks after its keys: inspects, resets, blocks, gives others', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(1)} }`)
    await told('user=ann')
    expect(service.rules.limits['web-user']).toMatchObject({ by: ['user'], limit: '1/hour' })
    expect((await service.inspect('web-user', 'ann')).limits).toMatchObject([{ remaining: 0, limit: 1 }])
    await service.reset('web-user', 'ann')
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    service.override({ ...exception, to: '5/day' })
    expect(await told('user=ann')).toEqual(['OK', 'OK 3'])
    await service.block({ ...exception, key: 'bob' })
    expect(await told('user=bob')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
  })

  test('lets a limit watch only, or not at all', async () => {
    const { told, service } = deciding(`  - { key: user, ${limit(0)} }`)
    expect(await told('user=ann')).toEqual(['OVER_LIMIT', 'OVER_LIMIT 0'])
    service.setMode('web-user', { mode: 'observe', enforcePercent: 100 })
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
    service.setMode('web-user', { mode: 'off', enforcePercent: 100 })
    expect(await told('user=ann')).toEqual(['OK', 'OK 0'])
  })

  test('refuses nobody where the rules only watch', async () => {
    const { told } = deciding(`  - { key: user, ${limit(0)} }`, 'mode: observe')
    expect(await told('user=ann', ['x=y', { limit: { requestsPerUnit: 0, unit: 1 } }])).toEqual(['OK', 'OK 0', 'OK 0'])
  })

  test('tells Envoy which header fields to add, where the rules say so', async () => {
    const { raw } = readEnvoyConfig(`domain: web\ndescriptors: [{ key: user, ${limit(2)} }]`)
    const envoy = JSON.stringify({ domains: [raw], headers: 'draft-6' })
    const { rules } = new Service(parseRules(`envoy: ${envoy}`).rules, memory({ clock: fakeClock(START_MS) }))
    const request = { domain: 'web', descriptors: [descriptorOf('user=ann')], hitsAddend: 0 }
    const { response } = await new Decider().decide(rules.envoy, request)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'RateLimit-Limit': '2',
      'RateLimit-Remaining': '1',
      'RateLimit-Reset': '3000',
    })
  })

  test('names limits by where they are, apart from those of the rules', () => {
    const { service } = deciding(
      `
  - { key: user, ${limit(1)} }
  - { key: a, value: b, ${limit(1)} }
  - { key: a-b, ${limit(1)} }
  - { key: looked, rate_limit: { name: Of/Them, unit: day, requests_per_unit: 1 } }
`,
      'limits: { web-user: { limit: 1/s } }',
    )
    const [own, ...names] = service.rules.limitNames
    expect(own).toBe('web-user')
    expect(names.pop()).toBe('brought-along')
    expect(names).toHaveLength(4)
    expect(new Set(names).size).toBe(4)
    expect(names[0]).toMatch(/^web-user-[\da-f]{8}$/)
    expect(names[3]).toBe('web-of-them')
  })

  test('names a limit the same whatever else there is', () => {
    const each = [
      `{ key: path, value: /a/b, ${limit(1)} }`,
      `{ key: path, value: /a-b, ${limit(1)} }`,
      `{ key: path, value: /A/b, ${limit(1)} }`,
      `{ key: path, value: a_b, ${limit(1)} }`,
      `{ key: path-a_b, ${limit(1)} }`,
      `{ key: path--a_b, ${limit(1)} }`,
      `{ key: path, descriptors: [{ key: a_b, ${limit(1)} }] }`,
      `{ key: other, rate_limit: { name: path/a/b, unit: day, requests_per_unit: 1 } }`,
      `{ key: path, value: ${'a'.repeat(80)}, ${limit(1)} }`,
      `{ key: path, value: ${'a'.repeat(81)}, ${limit(1)} }`,
    ]
    const namesOf = (lines: readonly string[]) =>
      deciding(lines.map((line) => `  - ${line}`).join('\n')).service.rules.limitNames.filter(
        (name) => name !== 'brought-along',
      )
    const alone = each.flatMap((line) => namesOf([line]))
    expect(namesOf(each)).toEqual(alone)
    expect(new Set(alone).size).toBe(each.length)
    expect(alone[0]).toMatch(/^web-path--a-b-[\da-f]{8}$/)
    expect([alone[3], alone[6], alone[7]]).toEqual(['web-path--a_b', 'web-path-a_b', 'web-path-a-b'])
  })
})
