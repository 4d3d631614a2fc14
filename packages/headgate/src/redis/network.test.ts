import { createGate, type Gate } from 'headgate'
import { type RedisStore, redis } from 'headgate/redis'
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { type ClientKind, clientKinds, connect } from '../../test/clients.ts'
import { startProxy, type TcpProxy } from '../../test/proxy.ts'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { dependsOn, ifStalled } from '../../test/stalls.ts'
import { changes, inTime } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

const MANY = 1_000_000
type AnyGate = Gate<string, never, RedisStore>

describe.skipIf(!canStartRedis)('a network', { timeout: 60_000, retry: ifStalled }, () => {
  let server: OwnRedis
  let auditor: AnyGate
  let stopAuditor: () => Promise<void>
  beforeAll(async () => {
    server = await startRedis()
    const { client, close } = await connect('ioredis', server)
    stopAuditor = close
    auditor = createGate({ limit: '1_000_000/year', store: redis(client), timeoutMs: 5_000 })
  })
  afterAll(async () => {
    await stopAuditor?.()
    await server?.stop()
  })

  /** A gate with a network of its own, over which some requests have gone already. */
  async function gateBehind(kind: ClientKind, { onTestFinished, onTestFailed }: TestContext, timeoutMs = 50) {
    const proxy = await startProxy(server)
    dependsOn(onTestFailed, server.pid)
    onTestFinished(() => proxy.stop())
    const { client, close } = await connect(kind, proxy)
    onTestFinished(close)
    const { states, listen } = changes()
    const store = redis(client, { onProblem: () => {} })
    const gate = createGate({ limit: '1_000_000/year', store, timeoutMs, onStoreChange: listen })
    await isBack(gate)
    return { gate, proxy, states, key: `${kind} ${proxy.port}` }
  }

  function takeMany(gate: AnyGate, key: string) {
    return inTime(Promise.all(Array.from({ length: 20 }, () => gate.take(key))))
  }

  async function counted(key: string): Promise<number> {
    const { remaining, degraded } = await auditor.peek(key)
    expect(degraded).toBe(false)
    return MANY - remaining
  }

  async function isBack(gate: AnyGate): Promise<void> {
    await until('a decision by the store', async () => !(await inTime(gate.take('anybody'))).degraded || undefined)
  }

  async function isAnsweredHere(gate: AnyGate, key: string): Promise<void> {
    for (let round = 0; round < 3; round++)
      for (const decision of await takeMany(gate, key)) expect(decision).toMatchObject({ ok: true, degraded: 'local' })
    expect(gate.health().state).toBe('down')
    await until('a probe in vain, long after these', async () => {
      const before = failuresOf(gate)
      await inTime(gate.take('anybody'))
      return failuresOf(gate) > before || undefined
    })
  }

  function failuresOf(gate: AnyGate): number {
    return Object.values(gate.health().failures).reduce((sum, each) => sum + each, 0)
  }

  const faults: Record<string, (proxy: TcpProxy) => unknown> = {
    'is cut': (proxy) => proxy.cut(),
    'loses what is sent': (proxy) => proxy.stall('commands'),
    'loses all': (proxy) => proxy.stall(),
    'becomes slow': (proxy) => proxy.delay(200),
  }
  describe.each(Object.keys(faults))('that %s', (fault) => {
    test.concurrent.for(clientKinds)(
      'keeps nobody waiting who uses %s, and charges nobody later',
      async (kind, context) => {
        const { gate, proxy, states, key } = await gateBehind(kind, context)
        await faults[fault]?.(proxy)
        await isAnsweredHere(gate, key)
        await proxy.heal()
        await isBack(gate)
        expect(states).toEqual(['down', 'up'])
        expect(await counted(key)).toBe(0)
      },
    )
  })

  test.concurrent.for(clientKinds)(
    'that loses replies, and then all connections, makes %s charge nobody twice',
    async (kind, context) => {
      const { gate, proxy, states, key } = await gateBehind(kind, context, 300)
      proxy.stall('replies')
      const answers = takeMany(gate, key)
      await until('the calls to arrive', async () => (await counted(key)) === 20 || undefined)
      for (const { degraded } of await answers) expect(degraded).toBe('local')
      await proxy.cut()
      await proxy.heal()
      await isBack(gate) // ioredis and iovalkey have by then sent again what was not answered
      expect(states).toEqual(['down', 'up'])
      expect(await counted(key)).toBe(20)
    },
  )

  test.concurrent.for(clientKinds)('that is far but steady is no reason not to ask, with %s', async (kind, context) => {
    const { gate, proxy, states, key } = await gateBehind(kind, context, 900)
    proxy.delay(20)
    for (let round = 0; round < 3; round++)
      for (const { degraded } of await takeMany(gate, key)) expect(degraded).toBe(false)
    expect(states).toEqual([])
    expect(await counted(key)).toBe(60)
  })
})
