import { status as codes } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../../headgate/test/random.ts'
import { canStartRedis, type OwnRedis } from '../../../headgate/test/redis-server.ts'
import { until } from '../../../headgate/test/until.ts'
import { envoyRules, perHour, serving, web } from '../../test/envoy.ts'
import { descriptor, EnvoyClient, hits } from '../../test/envoy-client.ts'
import { samplesOf } from '../../test/metrics.ts'
import { child, ownRedis, rulesFile } from '../../test/service.ts'

const ann = [['user', 'ann']] as const
const all = [['all', 'x']] as const

/** Two services on one Redis. */
async function two(redis: OwnRedis, descriptors: readonly string[], more = '') {
  const store = `store: ${redis.url}\ntimeoutMs: 10000\n${more}`
  const services = [await serving(web(...descriptors), store), await serving(web(...descriptors), store)] as const
  return { services, clients: services.map(({ client }) => client.patient()) as [EnvoyClient, EnvoyClient] }
}

describe.skipIf(!canStartRedis)('on a Redis that several share', () => {
  test('two of them admit just the limit, and charge all descriptors or none', async () => {
    const { clients } = await two(await ownRedis(), [perHour('user', 50), perHour('all', 80, ', value: x')])
    const ask = (i: number) =>
      (clients[i % 2] as EnvoyClient).ask('web', [descriptor([['user', `u${i % 3}`]]), descriptor(all)])
    const answers = await Promise.all(Array.from({ length: 300 }, (_, i) => ask(i)))
    expect(answers.filter(({ overallCode }) => overallCode === 'OK')).toHaveLength(80)
    expect((await clients[0].take('web', all, hits(0))).limitRemaining).toBe(0)
    const left = await Promise.all([0, 1, 2].map((i) => clients[1].take('web', [['user', `u${i}`]], hits(0))))
    expect(left.reduce((sum, { limitRemaining }) => sum + limitRemaining, 0)).toBe(150 - 80)
  })

  test('one looks, the other charges past the limit, and both know', async () => {
    const { clients } = await two(await ownRedis(), [perHour('user', 10)])
    const [one, other] = clients
    expect(await one.take('web', ann, hits(0))).toMatchObject({ code: 'OK', limitRemaining: 10 })
    // Noted in the store by now, or by the next answer.
    await one.take('web', [['user', 'bob']])
    expect(await other.take('web', ann, hits(25))).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await one.take('web', ann, hits(0))).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await other.take('web', ann, { ...hits(20), isNegativeHits: true })).toMatchObject({ code: 'OK' })
    expect(await one.take('web', ann, hits(0))).toMatchObject({ code: 'OK', limitRemaining: 5 })
    expect(await other.take('web', [['user', 'cyd']], hits(25))).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await one.take('web', [['user', 'cyd']])).toMatchObject({ code: 'OK', limitRemaining: 9 })
  })

  test('the same descriptor twice, quotas and limits that are brought along count there too', async () => {
    const { clients } = await two(await ownRedis(), [
      perHour('user', 3),
      perHour('a', 1, ', quota_mode: true'),
      perHour('b', 1, ', quota_mode: true'),
    ])
    const [one, other] = clients
    const twice = [descriptor(ann), descriptor(ann)]
    expect(await one.ask('web', twice)).toMatchObject({ overallCode: 'OK' })
    expect(await other.ask('web', twice)).toMatchObject({ overallCode: 'OVER_LIMIT' })
    const brought = { limit: { requestsPerUnit: 5, unit: 'PER_HOUR' } }
    expect(await other.take('web', ann, brought)).toMatchObject({ code: 'OK', limitRemaining: 2 })
    const quotas = [descriptor([['a', '1']]), descriptor([['b', '1']]), descriptor([['user', 'dan']])]
    expect(await one.ask('web', quotas)).toMatchObject({ overallCode: 'OK' })
    expect(await one.ask('web', quotas)).toMatchObject({ overallCode: 'OVER_LIMIT' })
    await until('what was given back', async () => {
      const { limitRemaining } = await other.take('web', [['user', 'dan']], hits(0))
      return limitRemaining === 2 || undefined
    })
  })

  test('what one request gives back and charges past the limit is booked in that order', async () => {
    const { clients } = await two(await ownRedis(), [perHour('user', 4, ', shadow_mode: true')])
    const [one, other] = clients
    await one.take('web', ann, hits(2))
    await one.take('web', ann, hits(0))
    // Two are there to be given back, so four of four are charged then; charged first it would be three.
    await one.ask('web', [descriptor(ann, { ...hits(3), isNegativeHits: true }), descriptor(ann, hits(4))])
    expect(await other.take('web', ann, hits(0))).toMatchObject({ limitRemaining: 0 })
  })

  test('whatever is asked is answered as without it', async () => {
    const yaml = web(
      perHour('a', 7),
      perHour('s', 4, ', shadow_mode: true'),
      perHour('q', 5, ', quota_mode: true'),
      perHour('r', 9, ', quota_mode: true'),
    )
    const redis = await ownRedis()
    const [here, there] = [await serving(yaml, ''), await serving(yaml, `store: ${redis.url}\ntimeoutMs: 10000`)]
    const clients = [here.client.patient(), there.client.patient()] as const
    const random = randomBelow(seed)
    for (let i = 0; i < 200; i++) {
      const asked = Array.from({ length: 1 + random(3) }, () => {
        const entries = [['asqr'[random(4)] as string, `${random(2) + 2 * Math.floor(i / 40)}`]] as const
        const addend = [{}, {}, hits(0), hits(1 + random(4)), { ...hits(1 + random(3)), isNegativeHits: true }][
          random(5)
        ]
        const brought = { limit: { requestsPerUnit: 1 + random(9), unit: random(2) === 0 ? 'PER_HOUR' : 'PER_DAY' } }
        return descriptor(entries, { ...addend, ...(random(8) === 0 && brought) })
      })
      const told = async (client: EnvoyClient) => {
        const { overallCode, statuses } = await client.ask('web', asked)
        return [overallCode, ...statuses.map(({ code, limitRemaining }) => `${code} ${limitRemaining}`)]
      }
      const what = `HEADGATE_SEED=${seed}, request ${i}: ${JSON.stringify(asked)}`
      expect(await told(clients[1]), what).toEqual(await told(clients[0]))
    }
  })

  describe('that has stopped', () => {
    async function stopped(more: string) {
      const redis = await ownRedis()
      const { client } = await serving(web(perHour('user', 3)), `store: ${redis.url}\n${more}`)
      // The first one may come too late on a machine that has much to do.
      await until('a first answer', () => client.take('web', ann, hits(0)).catch(() => undefined))
      redis.pause()
      return client
    }

    async function told(client: EnvoyClient): Promise<string[]> {
      const codes: string[] = []
      for (let i = 0; i < 5; i++) codes.push((await client.ask('web', [descriptor(ann)])).overallCode)
      return codes
    }

    test('an Envoy that waits for 20 ms has its answer before, counted here', async () => {
      const early: unknown[] = []
      // Before it is known that nobody answers there. A machine that is busy may be late now and then, but not each time.
      for (let i = 0; i < 5 && early.length === 0; i++) {
        const client = await stopped('')
        client.withinMs = 20
        for (let j = 0; j < 3; j++) await client.ask('web', [descriptor(ann)]).then((each) => early.push(each), late)
      }
      expect(early[0]).toMatchObject({ overallCode: 'OK' })
    })

    test('one who does not say how long it waits is answered as soon', async () => {
      const client = await stopped('timeoutMs: 10000')
      const startMs = performance.now()
      const codes = await told(client)
      expect([codes[0], codes.at(-1)]).toEqual(['OK', 'OVER_LIMIT'])
      expect(performance.now() - startMs).toBeLessThan(5_000)
    })

    test('all pass, or are told of an error, where the limits say so', async () => {
      const allowed = await stopped('onStoreError: allow')
      expect(await told(allowed)).toEqual(['OK', 'OK', 'OK', 'OK', 'OK'])
      const denied = await stopped('onStoreError: deny')
      await expect(denied.take('web', ann)).rejects.toMatchObject({ code: codes.UNAVAILABLE })
    })
  })
})

test('several processes on one machine share port and counts', async () => {
  const { grpcPort, admin } = await child(
    rulesFile(envoyRules(web(perHour('user', 40)), 'timeoutMs: 5000', 'workers: 2')),
  )
  const clients = Array.from({ length: 6 }, () => new EnvoyClient(grpcPort, undefined, OWN_CONNECTION).patient())
  for (const client of clients) expect(await client.health('ratelimit')).toBe('SERVING')
  const asks = Array.from({ length: 120 }, (_, i) => (clients[i % 6] as EnvoyClient).take('web', ann))
  const answers = await Promise.all(asks)
  expect(answers.filter(({ code }) => code === 'OK')).toHaveLength(40)
  await until('the counts of both', async () => {
    const samples = samplesOf(await (await admin('/metrics')).text())
    return samples.get('headgate_decisions_total{limit="web-user",outcome="denied"}') === 80 || undefined
  })
})

function late({ code }: { code: number }): void {
  expect(code).toBe(codes.DEADLINE_EXCEEDED)
}

/** Clients would share one otherwise. */
const OWN_CONNECTION = { 'grpc.use_local_subchannel_pool': 1 }
