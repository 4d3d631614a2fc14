import { memory } from 'headgate'
import type { ClientError, PoliteFetch } from 'headgate/client'
import { headgate } from 'headgate/fetch'
import { describe, expect, test } from 'vitest'
import { type Handler, peak, type World, world } from '../../test/virtual.ts'

const url = 'https://api.example/things'
const many = (count: number, polite: PoliteFetch) => Array.from({ length: count }, () => polite(url))

function limited({ clock }: World, limit: string): Handler {
  return headgate({ limit, clock, by: () => 'all' } as never)(async () => new Response('ok')) as Handler
}

const codeOf = (error: unknown) => (error as ClientError).code

describe('who cannot wait', () => {
  test('is told when it has waited for maxWaitMs, and others go on', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(limited(here, '1/s'))
    const outcomes = await here.settle(Promise.allSettled(many(10, here.client({ fetch, maxWaitMs: 3_500 }))))
    const refused = outcomes.flatMap((each) => (each.status === 'rejected' ? [codeOf(each.reason)] : []))
    expect(new Set(refused)).toEqual(new Set(['HG_WAIT_TOO_LONG']))
    expect(arrivals.length + refused.length).toBe(10)
    expect(arrivals.length).toBeGreaterThanOrEqual(4)
    expect(here.timers()).toBe(0)
  })

  test('is told at once where the limit that was given makes that certain', async () => {
    const here = world()
    const { fetch, startMs } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch, limit: '1/h' })
    await here.settle(polite(url))
    const error = await here.settle(polite(url).catch((reason) => reason))
    expect(codeOf(error)).toBe('HG_WAIT_TOO_LONG')
    expect(here.clock.now() - startMs).toBeLessThan(10)
  })

  test('is told by its deadline, which ends a call under way as well', async () => {
    const here = world()
    const slow = here.serve(() => new Promise<Response>(() => {}))
    const error = await here.settle(
      here
        .client({ fetch: slow.fetch })(url, { deadlineMs: 250 })
        .catch((reason) => reason),
    )
    expect(codeOf(error)).toBe('HG_DEADLINE_PASSED')
    expect(here.clock.now() - slow.startMs).toBe(250)
    const { fetch } = here.serve(limited(here, '1/s'))
    const polite = here.client({ fetch, deadlineMs: 2_500 })
    const codes = await here.settle(Promise.all(many(6, polite).map((each) => each.then(() => 'ok', codeOf))))
    expect(new Set(codes)).toEqual(new Set(['ok', 'HG_DEADLINE_PASSED']))
    expect(here.timers()).toBe(0)
  })

  test('finds no room when ten thousand wait already', async () => {
    const here = world()
    const { fetch } = here.serve(() => new Promise<Response>(() => {}))
    const polite = here.client({ fetch, concurrency: 1 })
    const end = new AbortController()
    const waiting = Array.from({ length: 10_001 }, () => polite(url, { signal: end.signal }).catch(() => {}))
    await expect(polite(url)).rejects.toMatchObject({ code: 'HG_QUEUE_FULL' })
    end.abort()
    await here.settle(Promise.all(waiting))
    expect(polite.state().hosts[0]).toMatchObject({ waiting: 0, underWay: 0 })
  })
})

describe('who gives up leaves nothing behind', () => {
  /** A signal that knows who listens. */
  function counted() {
    const controller = new AbortController()
    const { signal } = controller
    const listeners = new Set<unknown>()
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)]
    signal.addEventListener = ((type: 'abort', listener: () => void, options: object) => {
      listeners.add(listener)
      add(type, listener, options)
    }) as never
    signal.removeEventListener = ((type: 'abort', listener: () => void) => {
      listeners.delete(listener)
      remove(type, listener)
    }) as never
    return { controller, listeners }
  }

  function idle(here: World, polite: PoliteFetch) {
    for (const host of polite.state().hosts) expect(host).toMatchObject({ waiting: 0, underWay: 0 })
    expect(here.timers()).toBe(0)
  }

  test('before it calls', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch })
    await expect(polite(url, { signal: AbortSignal.abort('gone') })).rejects.toBe('gone')
    expect(arrivals).toHaveLength(0)
    idle(here, polite)
  })

  test('while it waits for its turn', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(limited(here, '1/10s'))
    const polite = here.client({ fetch })
    await here.settle(polite(url))
    const { controller, listeners } = counted()
    const outcome = polite(url, { signal: controller.signal }).catch((reason) => reason)
    await here.pass(100)
    expect(listeners.size).toBe(1)
    controller.abort('enough')
    expect(await outcome).toBe('enough')
    expect([arrivals.length, listeners.size]).toEqual([1, 0])
    idle(here, polite)
  })

  test('while its answer is under way', async () => {
    const here = world()
    const { fetch } = here.serve(() => new Response('ok'), 1_000)
    const polite = here.client({ fetch })
    const { controller, listeners } = counted()
    const call = polite(url, { signal: controller.signal, deadlineMs: 60_000 })
    const outcome = call.catch((reason) => reason)
    await here.pass(100)
    controller.abort('enough')
    expect(await outcome).toBe('enough')
    await here.pass(2_000)
    expect(listeners.size).toBe(0)
    idle(here, polite)
  })

  test('between two attempts', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('', { status: 429, headers: { 'retry-after': '30' } }))
    const polite = here.client({ fetch })
    const { controller, listeners } = counted()
    const outcome = polite(url, { signal: controller.signal }).catch((reason) => reason)
    await here.pass(1_000)
    controller.abort('enough')
    expect(await outcome).toBe('enough')
    expect([arrivals.length, listeners.size]).toEqual([1, 0])
    idle(here, polite)
  })

  test('while the body of a refusal is read', async () => {
    const here = world()
    const { controller, listeners } = counted()
    const { fetch, arrivals } = here.serve(() => {
      const pull = (stream: ReadableStreamDefaultController) => {
        controller.abort('enough')
        stream.error('enough')
      }
      const body = new ReadableStream({ pull }, { highWaterMark: 0 })
      const headers = { 'retry-after': '30', 'content-type': 'application/json' }
      return new Response(body, { status: 429, headers })
    })
    const polite = here.client({ fetch })
    expect(await here.settle(polite(url, { signal: controller.signal }).catch((reason) => reason))).toBe('enough')
    expect([arrivals.length, listeners.size]).toEqual([1, 0])
    expect(here.clock.now() - Date.UTC(2026, 1, 3, 4, 5, 6, 789)).toBeLessThan(100)
    idle(here, polite)
  })

  test('after its answer: nothing listens and nothing is timed any more', async () => {
    const here = world()
    const { fetch } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch })
    const { controller, listeners } = counted()
    await here.settle(polite(url, { signal: controller.signal, deadlineMs: 60_000 }))
    expect(listeners.size).toBe(0)
    idle(here, polite)
  })

  test('by chance at any time, a hundred times', async () => {
    const here = world()
    const { fetch, closing } = here.serve(limited(here, '20/s'))
    const polite = here.client({ fetch })
    const calls = Array.from({ length: 100 }, async (_, index) => {
      const controller = new AbortController()
      here.clock.after((index * 37) % 4_000, () => controller.abort('enough'))
      return polite(url, { signal: controller.signal, deadlineMs: 10_000 }).then(() => 'ok', String)
    })
    const outcomes = await here.settle(Promise.all(calls))
    expect(new Set(outcomes)).toEqual(new Set(['ok', 'enough']))
    await here.pass(5_000)
    expect(closing()).toBe(0)
    idle(here, polite)
  })
})

describe('servers that cannot be believed', () => {
  const lying =
    (fields: Record<string, string>, status = 200): Handler =>
    () =>
      new Response('', { status, headers: fields })

  test.each([
    [
      'nothing left for an hour, always',
      { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '3600' },
    ],
    ['nothing left, without a word when', { 'x-ratelimit-remaining': '0' }],
    [
      'nothing left until an hour ago',
      {
        'x-ratelimit-limit': '9',
        'x-ratelimit-remaining': '0',
        'x-ratelimit-reset': `${Date.UTC(2026, 1, 3, 3) / 1000}`,
      },
    ],
    ['a limit of 0', { ratelimit: '"a";r=0;t=1', 'ratelimit-policy': '"a";q=0;w=1' }],
    [
      'numbers that are none',
      { 'x-ratelimit-limit': 'many', 'x-ratelimit-remaining': '-1', 'x-ratelimit-reset': 'never' },
    ],
    [
      'numbers beyond all',
      {
        'x-ratelimit-limit': '999999999999999',
        'x-ratelimit-remaining': '0.5',
        'x-ratelimit-reset': '999999999999999',
      },
    ],
    ['more left than there is', { ratelimit: '"a";r=99;t=0', 'ratelimit-policy': '"a";q=1;w=1' }],
  ])('lose no call: %s', async (_, fields) => {
    const here = world()
    const { fetch, arrivals } = here.serve(lying(fields as unknown as Record<string, string>))
    const answers = await here.settle(Promise.all(many(20, here.client({ fetch }))))
    expect(answers).toHaveLength(20)
    expect(arrivals).toHaveLength(20)
  })

  test('make no hot loop: a refusal that says "come back at once" for ever', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(lying({ 'retry-after': '0', ratelimit: '"a";r=100;t=0' }, 429))
    const polite = here.client({ fetch, retries: 50, random: () => 0.5 })
    const error = await here.settle(polite(url).catch((reason) => reason))
    expect(codeOf(error)).toBe('HG_WAIT_TOO_LONG')
    expect(peak(arrivals, 1_000)).toBeLessThanOrEqual(5)
  })

  test('whose clock is an hour off, either way, cost nothing', async () => {
    for (const skewMs of [-3_600_000, 3_600_000]) {
      const here = world()
      let used = 0
      const { fetch, arrivals } = here.serve(() => {
        const serverMs = here.clock.now() + skewMs
        const [windowMs, second] = [1000, Math.floor(here.clock.now() / 1000)]
        if (second !== state.second) [state.second, used] = [second, 0]
        used++
        const headers = {
          date: new Date(serverMs).toUTCString(),
          'x-ratelimit-limit': '10',
          'x-ratelimit-remaining': `${Math.max(0, 10 - used)}`,
          'x-ratelimit-reset': `${Math.floor(serverMs / windowMs) + 1}`,
          ...(used > 10 && { 'retry-after': new Date(serverMs + 1000).toUTCString() }),
        }
        return new Response('', { status: used > 10 ? 429 : 200, headers })
      })
      const state = { second: 0 }
      await here.settle(Promise.all(many(60, here.client({ fetch }))))
      expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
      expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(7_500)
    }
  })

  test('that change their dialect lose no call and are not sent more than they take', async () => {
    const here = world()
    const store = memory()
    const styles = ['ietf', 'draft-7', 'draft-6', 'legacy'].map((headers) =>
      headgate({ limit: '20/s', headers, clock: here.clock, by: () => 'all', store } as never)(
        async () => new Response('ok'),
      ),
    )
    let calls = 0
    const { fetch, arrivals } = here.serve((request) => {
      calls++
      return styles[Math.floor(calls / 7) % 4]?.(request) as Promise<Response>
    })
    await here.settle(Promise.all(many(100, here.client({ fetch }))))
    expect(arrivals.filter(({ status }) => status === 200)).toHaveLength(100)
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(10)
  })
})

describe('servers that say nothing', () => {
  test('are met with a few calls at first, then with as many as come', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'), 10)
    await here.settle(Promise.all(many(200, here.client({ fetch }))))
    expect(peak(arrivals.slice(0, 3), 5)).toBeLessThanOrEqual(2)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(100)
  })

  test('one that does not answer the first call is asked another after a second', async () => {
    const here = world()
    let calls = 0
    const { fetch } = here.serve(() => (calls++ === 0 ? new Promise<Response>(() => {}) : new Response('ok')))
    const polite = here.client({ fetch })
    const end = new AbortController()
    const first = polite(url, { signal: end.signal }).catch(() => {})
    await here.settle(polite(url))
    expect(here.clock.now() - Date.UTC(2026, 1, 3, 4, 5, 6, 789)).toBeLessThanOrEqual(1_010)
    end.abort()
    await first
  })

  test('and refuse what is too much get less, then more again, and no call is lost', async () => {
    const here = world()
    let [startMs, used] = [0, 0]
    const { fetch, arrivals } = here.serve(() => {
      if (here.clock.now() >= startMs + 1000) [startMs, used] = [here.clock.now(), 0]
      return new Response('', { status: ++used > 20 ? 429 : 200 })
    })
    const polite = here.client({ fetch, retries: 10, maxWaitMs: 600_000 })
    const calls = Array.from({ length: 600 }, async (_, index) => {
      await new Promise<void>((resolve) => void here.clock.after(index * 40, resolve))
      return (await polite(url)).status
    })
    expect(new Set(await here.settle(Promise.all(calls)))).toEqual(new Set([200]))
    const refused = arrivals.filter(({ status }) => status === 429).length
    expect(refused).toBeGreaterThan(0)
    expect(refused).toBeLessThanOrEqual(120)
    // 600 calls at 20 a second are half a minute.
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(75_000)
  })

  test('and fail are spared most calls, and are found when they are back', async () => {
    const here = world()
    let isDown = true
    const { fetch, arrivals } = here.serve(() => new Response('', { status: isDown ? 503 : 200 }))
    const polite = here.client({ fetch, retries: 0 })
    const codes: unknown[] = []
    for (let call = 0; call < 300; call++) {
      codes.push(await here.settle(polite(url).then((response) => response.status, codeOf)))
      await here.pass(100)
    }
    expect(arrivals.length).toBeLessThan(100)
    isDown = false
    const before = arrivals.length
    for (let call = 0; call < 1_500; call++) {
      await here.settle(polite(url).catch(codeOf))
      await here.pass(100)
    }
    expect(arrivals.length - before).toBeGreaterThan(1_000)
  })
})
