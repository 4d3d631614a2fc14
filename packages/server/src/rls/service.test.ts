import { describe, expect, test } from 'vitest'
import { descriptor, EnvoyClient, hits } from '../../test/envoy-client.ts'
import { type Instance, instance, rulesOf } from '../../test/service.ts'

/** A service with these domains, and a client of it. */
async function serving(domains: string, more = ''): Promise<{ client: EnvoyClient; service: Instance }> {
  const text = rulesOf('  {}', `envoy:\n  domains:\n${domains.replaceAll(/^/gm, '    ')}\n${more}`)
  const service = await instance(text.replace('grpcPort: false', 'grpcPort: 0'))
  return { client: new EnvoyClient(service.grpcPort), service }
}

const perHour = (key: string, requests: number, more = '') =>
  `- domain: web\n  descriptors:\n    - { key: ${key}, rate_limit: { unit: hour, requests_per_unit: ${requests} }${more} }`

describe('an Envoy that asks', () => {
  test('gets what is left of a limit, then is told that it is over', async () => {
    const { client } = await serving(perHour('user', 2))
    expect(await client.take('web', [['user', 'ann']])).toMatchObject({
      code: 'OK',
      currentLimit: { requestsPerUnit: 2, unit: 'HOUR' },
      limitRemaining: 1,
    })
    expect(await client.take('web', [['user', 'ann']])).toMatchObject({ code: 'OK', limitRemaining: 0 })
    const over = await client.ask('web', [descriptor([['user', 'ann']])])
    expect(over.overallCode).toBe('OVER_LIMIT')
    expect(over.statuses).toMatchObject([{ code: 'OVER_LIMIT', limitRemaining: 0 }])
    const { seconds = 0 } = over.statuses[0]?.durationUntilReset ?? {}
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(3600)
    expect(await client.take('web', [['user', 'bob']])).toMatchObject({ code: 'OK', limitRemaining: 1 })
  })

  test('charges a look later, past the limit', async () => {
    const { client } = await serving(perHour('user', 10))
    const look = () => client.take('web', [['user', 'ann']], hits(0))
    expect(await look()).toMatchObject({ code: 'OK', limitRemaining: 10 })
    expect(await client.take('web', [['user', 'ann']], hits(10))).toMatchObject({ code: 'OK', limitRemaining: 0 })
    expect(await look()).toMatchObject({ code: 'OK', limitRemaining: 0 })
    expect(await client.take('web', [['user', 'ann']], hits(25))).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await look()).toMatchObject({ code: 'OVER_LIMIT', limitRemaining: 0 })
    expect(await client.take('web', [['user', 'bob']], hits(25))).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await client.take('web', [['user', 'bob']], hits(1))).toMatchObject({ code: 'OK', limitRemaining: 9 })
  })
})
