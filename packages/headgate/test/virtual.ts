// A server and its callers on a clock of their own: hours pass in milliseconds, and every run is the same.
import type { Fetch, PoliteFetch, PoliteOptions } from 'headgate/client'
import { politeFetch } from 'headgate/client'
import { type FakeClock, fakeClock } from 'headgate/testing'

export type Handler = (request: Request) => Response | Promise<Response>

export interface Arrival {
  readonly atMs: number
  readonly url: string
  readonly method: string
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

export interface World {
  readonly clock: FakeClock
  /** Timers that are set at the moment. */
  timers(): number
  /** Lets time pass until the promise is settled. */
  settle<T>(promise: Promise<T>): Promise<T>
  /** Lets so much time pass. */
  pass(ms: number): Promise<void>
  /** A server, as `fetch` sees it, so many milliseconds away and back. */
  serve(
    handler: Handler,
    roundTripMs?: number,
  ): { fetch: Fetch; arrivals: Arrival[]; startMs: number; closing(): number }
  client(options: PoliteOptions & { readonly random?: () => number; readonly channel?: object }): PoliteFetch
}

export function world(startMs = Date.UTC(2026, 1, 3, 4, 5, 6, 789)): World {
  const base = fakeClock(startMs)
  const due = new Map<object, number>()
  const clock: FakeClock = {
    ...base,
    after(ms, call) {
      const timer = {}
      due.set(timer, base.now() + ms)
      const cancel = base.after(ms, () => {
        due.delete(timer)
        call()
      })
      return () => {
        due.delete(timer)
        cancel()
      }
    },
  }

  /** What runs in real time, while which the clock must not move on. */
  const work = { pending: 0 }

  async function settle<T>(promise: Promise<T>): Promise<T> {
    let isDone = false
    const end = () => {
      isDone = true
    }
    promise.then(end, end)
    for (let steps = 0; steps < 200_000; steps++) {
      do await quiet()
      while (work.pending > 0)
      if (isDone) return promise
      const nextMs = Math.min(...due.values())
      if (nextMs === Infinity) throw new Error('nothing is going to happen any more, and the promise is not settled')
      clock.advance(Math.max(0, nextMs - clock.now()))
    }
    throw new Error('too much has happened, and the promise is not settled')
  }

  return {
    clock,
    timers: () => due.size,
    settle,
    pass: (ms) => settle(new Promise((resolve) => void clock.after(ms, () => resolve()))),
    client: (options) => politeFetch({ clock, ...options } as PoliteOptions),
    serve: (handler, roundTripMs = 4) => serve(clock, work, handler, roundTripMs),
  }
}

/** Until nothing that is ready to run is left: promises, streams. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

function serve(clock: FakeClock, work: { pending: number }, handler: Handler, roundTripMs: number) {
  const arrivals: Arrival[] = []
  const startMs = clock.now()
  let listeners = 0
  const fetch = ((input: string | URL | Request, init?: RequestInit) =>
    new Promise<Response>((resolve, reject) => {
      const request = new Request(input, { ...init, ...(init?.body ? { duplex: 'half' } : {}) } as RequestInit)
      const own = input instanceof Request ? input.signal : undefined
      const signal = (init?.signal === undefined ? own : init.signal) ?? undefined
      let cancel = () => {}
      const onAbort = () => {
        cancel()
        over()
        reject(signal?.reason)
      }
      if (signal?.aborted) return reject(signal.reason)
      signal?.addEventListener('abort', onAbort, { once: true })
      listeners++
      let isOver = false
      const over = () => {
        if (isOver) return
        isOver = true
        signal?.removeEventListener('abort', onAbort)
        listeners--
      }
      cancel = clock.after(roundTripMs / 2, async () => {
        try {
          work.pending++
          const body = request.body === null ? '' : await request.clone().text()
          work.pending--
          const response = await handler(request)
          const { url, method, headers } = request
          arrivals.push({ atMs: clock.now() - startMs, url, method, headers, status: response.status, body })
          cancel = clock.after(roundTripMs / 2, () => {
            over()
            resolve(response)
          })
        } catch (error) {
          over()
          reject(error)
        }
      })
    })) as Fetch
  return { fetch, arrivals, startMs, closing: () => listeners }
}

/** The most that came within any span of this length. */
export function peak(arrivals: readonly Arrival[], spanMs: number): number {
  let [most, from] = [0, 0]
  for (const [index, { atMs }] of arrivals.entries()) {
    while ((arrivals[from] as Arrival).atMs <= atMs - spanMs) from++
    most = Math.max(most, index - from + 1)
  }
  return most
}
