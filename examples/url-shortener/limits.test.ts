import { expect, test } from 'vitest'
import { address, HERE, HOUR, NOON, onEachStore, type Shortener, spend, statuses, usage } from './rig.ts'

onEachStore((start) => {
  test('an address creates at most 100 links in any hour, wherever the hour begins', async () => {
    const app = await start({ atMs: NOON - 1 })
    const admitted: number[] = []
    // Every twelve minutes for three hours, more than fit.
    for (let step = 0; step < 16; step++) {
      const { 201: created = 0 } = await statuses(step === 0 ? 110 : 30, () => app.create())
      for (let i = 0; i < created; i++) admitted.push(app.clock.now())
      app.clock.advance(step === 0 ? 1 : 12 * 60_000)
    }
    expect(admitted.filter((at) => at === NOON - 1)).toHaveLength(100)
    for (const from of admitted)
      expect(admitted.filter((at) => at >= from && at < from + HOUR).length).toBeLessThanOrEqual(100)
    expect(admitted.length).toBeGreaterThanOrEqual(200)
  })

  test('an account creates 1,000 links a day from any number of addresses, and twice that around midnight at most', async () => {
    const midnight = Date.UTC(2027, 4, 4)
    const app = await start({ atMs: midnight - 1 })
    for (const day of [midnight - 1, midnight]) {
      app.clock.set(day)
      await spend(app, 'create-account', 'ann', 900)
      expect(await statuses(130, (i) => app.create({ from: address(i % 40) }))).toEqual({ 201: 100, 429: 30 })
    }
    app.clock.set(midnight + 24 * HOUR - 1)
    expect((await app.create({ from: address(99) })).status).toBe(429)
    app.clock.advance(1)
    expect((await app.create({ from: address(99) })).status).toBe(201)
  })

  test('an address looks up 1,000 codes at once and 1,000 a minute, so never more than 2,000 in a minute', async () => {
    const app = await start()
    const look = () => app.get('/unknown0')
    await spend(app, 'lookup', HERE, 900)
    expect(await statuses(110, look)).toEqual({ 404: 100, 429: 10 })
    for (let second = 0; second < 60; second += 12) {
      app.clock.advance(12_000)
      await spend(app, 'lookup', HERE, 150)
      expect(await statuses(53, look)).toEqual({ 404: 50, 429: 3 })
    }
    // Others are others.
    expect((await app.get('/unknown0', { from: address(1) })).status).toBe(404)
  })

  test('of 200 creates at once exactly as many succeed as fit, and as many links are stored', async () => {
    const app = await start()
    const all = await Promise.all(Array.from({ length: 200 }, () => app.create()))
    expect(all.filter(({ status }) => status === 201)).toHaveLength(100)
    expect(all.filter(({ status }) => status === 429)).toHaveLength(100)
    expect(await app.stored()).toBe(100)
    const codes = await Promise.all(all.map(async (each) => ((await each.json()) as { code: string }).code))
    expect(new Set(codes.filter((code) => code !== 'rate_limited'))).toHaveLength(100)
  })

  test('a create that one limit refuses is charged to neither', async () => {
    const app = await start()
    await spend(app, 'create-account', 'ann', 900)
    expect(await statuses(110, () => app.create({ from: address(1) }))).toEqual({ 201: 100, 429: 10 })
    expect(await usage(app, { key: 'free', from: address(1) })).toMatchObject({
      'create-ip': { used: 100, remaining: 0 },
      'create-account': { used: 1_000, remaining: 0 },
    })
    // Now the account is the one to refuse.
    expect(await statuses(10, () => app.create({ from: address(2) }))).toEqual({ 429: 10 })
    expect((await usage(app, { from: address(2) }))['create-ip']).toMatchObject({ used: 0, remaining: 100 })
    // And an address that is used up does not cost another account anything.
    expect(await statuses(10, () => app.create({ key: 'premium', from: address(1) }))).toEqual({ 429: 10 })
    expect((await usage(app, { key: 'premium' }))['create-account']).toMatchObject({ used: 0, limit: 10_000 })
    expect(await app.stored()).toBe(100)
  })

  test('an upgrade in the middle of the day adds what premium has more, and going back grants nothing', async () => {
    const app = await start()
    await spend(app, 'create-account', 'ann', 999)
    expect((await app.create()).status).toBe(201)
    expect((await app.create()).status).toBe(429)
    app.accounts.set('free', { id: 'ann', tier: 'premium' })
    expect((await usage(app, { key: 'free' }))['create-account']).toMatchObject({ limit: 10_000, used: 1_000 })
    expect((await app.create()).status).toBe(201)
    for (const tier of ['free', 'premium', 'free'] as const) {
      app.accounts.set('free', { id: 'ann', tier })
      const { limit, remaining } = (await usage(app, { key: 'free' }))['create-account'] ?? {}
      expect([limit, remaining]).toEqual(tier === 'free' ? [1_000, 0] : [10_000, 8_999])
    }
    expect((await app.create()).status).toBe(429)
    // The day ends for all tiers at once.
    app.clock.set(NOON + 12 * HOUR)
    expect((await usage(app, { key: 'free' }))['create-account']).toMatchObject({ limit: 1_000, used: 0 })
  })

  test('premium ends at 10,000 a day', async () => {
    const app = await start()
    await spend(app, 'create-account', 'bob', 9_990)
    expect(await statuses(15, () => app.create({ key: 'premium' }))).toEqual({ 201: 10, 429: 5 })
  })

  test('two API keys of one account share its limit', async () => {
    const app = await start()
    app.accounts.set('second', { id: 'ann', tier: 'free' })
    await spend(app, 'create-account', 'ann', 990)
    expect(await statuses(15, (i) => app.create({ key: i % 2 ? 'free' : 'second' }))).toEqual({ 201: 10, 429: 5 })
  })

  test.each<
    [limit: string, prepare: (app: Shortener) => Promise<unknown>, call: (app: Shortener) => Promise<Response>]
  >([
    ['create-ip', (app) => spend(app, 'create-ip', HERE, 100), (app) => app.create()],
    ['create-account', (app) => spend(app, 'create-account', 'ann', 1_000), (app) => app.create({ from: address(7) })],
    ['lookup', (app) => spend(app, 'lookup', HERE, 1_000), (app) => app.get('/unknown0')],
  ])('the wait that %s tells is true to the millisecond', async (limit, prepare, call) => {
    const app = await start({ atMs: NOON + 1_234 })
    await prepare(app)
    const denied = await call(app)
    const { retryAfterMs, ...body } = (await denied.json()) as { limit: string; retryAfterMs: number }
    expect(body.limit).toBe(limit)
    expect(Number(denied.headers.get('retry-after'))).toBe(Math.ceil(retryAfterMs / 1000))
    app.clock.advance(retryAfterMs - 1)
    expect((await call(app)).status).toBe(429)
    app.clock.advance(1)
    expect((await call(app)).status).not.toBe(429)
  })
})
