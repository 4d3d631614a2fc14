import { writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { randomBy, seed } from '../../../headgate/test/random.ts'
import { canStartRedis } from '../../../headgate/test/redis-server.ts'
import { until } from '../../../headgate/test/until.ts'
import type { Child } from '../../test/child.ts'
import { keepSending, statusOf } from '../../test/load.ts'
import { behind, child, ownRedis, rulesFile, rulesOf, swapFile } from '../../test/service.ts'

const LARGEST = 400

const broken = [
  '',
  '{',
  'limits: { per-key: { limt: 1/day } }',
  'limits: [1]',
  '\0\xff',
  'upstream: nowhere\nlimits: {}',
]

type Way = (service: Child, file: string, text: string) => unknown

/** Ways to bring new rules to a service that runs. */
const ways: readonly Way[] = [
  (_, file, text) => writeFileSync(file, text),
  (_, file, text) => swapFile(file, text),
  (service, file, text) => {
    swapFile(file, text)
    service.signal('SIGHUP')
  },
  async (service, file, text) => {
    const headers = { 'content-type': 'application/yaml' }
    expect((await service.admin('/admin/v1/rules', { method: 'PUT', body: text, headers })).status).toBe(200)
    // Rules that were put hold, whatever becomes of the file, until somebody asks for it.
    swapFile(file, text)
    service.signal('SIGHUP')
  },
]

/** The limit that holds, asked for without spending. */
async function limitOf({ url }: Child): Promise<number | undefined> {
  const response = await fetch(`${url}/rate_limit`, { headers: { 'x-api-key': 'nobody' } })
  const { resources } = (await response.json()) as { resources: Record<string, { limit: number }> }
  return resources['per-key']?.limit
}

async function generationOf({ adminUrl }: Child): Promise<number> {
  const response = await fetch(`${adminUrl}/readyz`)
  return ((await response.json()) as { generation: number }).generation
}

/** Brings rules that cannot be used, and waits until they are refused. */
async function breakRules(service: Child, file: string, text: string): Promise<void> {
  const refused = () => service.log.filter(({ type }) => type === 'rules-refused').length
  const before = refused()
  swapFile(file, text)
  service.signal('SIGHUP')
  await until('a refusal', () => refused() > before || undefined)
}

const stores = { memory: async () => 'memory', Redis: async () => `redis://127.0.0.1:${(await ownRedis()).port}/0` }

test.skipIf(!canStartRedis).each([
  ['memory', 100],
  ['Redis', 30],
] as const)(
  `counts in %s, rules replaced %i times under load: nothing is dropped, nothing is granted (HEADGATE_SEED=${seed})`,
  async (kind, reloads) => {
    const next = randomBy(seed)
    const [upstream, store] = [await behind(), await stores[kind]()]
    const rules = (limit: number) =>
      rulesOf(
        `  per-key: { limit: ${limit}/day, by: [api-key] }`,
        `store: ${store}\nupstream: ${upstream.url}\ntimeoutMs: 10000`,
      )
    const file = rulesFile(rules(LARGEST))
    const service = await child(file)
    const load = keepSending(() => statusOf(fetch(service.url, { headers: { 'x-api-key': 'a' } })), { callers: 4 })

    let [limit, generation] = [LARGEST, await generationOf(service)]
    for (let i = 0; i < reloads; i++) {
      if (next() < 0.2) {
        await breakRules(service, file, pick(next, broken))
        expect(await limitOf(service)).toBe(limit)
      }
      limit = ((limit + Math.floor(next() * (LARGEST - 2))) % LARGEST) + 1 // another one
      await pick(next, ways)(service, file, rules(limit))
      await until('new rules', async () => (await limitOf(service)) === limit || undefined)
      const before = generation
      generation = await generationOf(service)
      expect(generation).toBeGreaterThan(before)
    }
    await load.stop()

    expect(load.failures).toEqual([])
    expect([...load.statuses.keys()].sort()).toEqual([200, 429])
    expect(load.of(200)).toBeLessThanOrEqual(LARGEST)
    expect(load.of(200)).toBe(upstream.got.length)
    expect(await limitOf(service)).toBe(limit)
  },
  60_000,
)

function pick<T>(next: () => number, all: readonly T[]): T {
  return all[Math.floor(next() * all.length)] as T
}
