import { PoliteCall, type Turn } from './call.ts'
import type { ClientEvent } from './events.ts'
import { Host, type HostState } from './host.ts'
import { checkCall, checkOptions, type Inner, type PoliteInit, type PoliteOptions } from './options.ts'
import { Outgoing } from './request.ts'
import { Gates } from './shared.ts'
import { Tabs } from './tabs.ts'

/** What a client knows of those it calls. */
export interface ClientState {
  readonly hosts: readonly HostState[]
}

/** A `fetch` that keeps to the limits of those it calls. */
export interface PoliteFetch {
  (input: string | URL | Request, init?: PoliteInit): Promise<Response>
  /** Waits for its turn as a call would, for clients that send by themselves; they say what came of it. */
  turn(url: string | URL, init?: PoliteInit): Promise<Turn>
  state(): ClientState
  /** Stops talking with other tabs. Calls go on. */
  close(): void
}

/** Hosts that nobody calls at the moment are forgotten beyond this. */
const MOST_HOSTS = 1_000

/**
 * A `fetch` that never gets itself banned: it reads what servers say about their limits, sends no more than they take, waits when they say
 * so, and repeats what is safe to repeat.
 */
export function politeFetch(options: PoliteOptions = {}): PoliteFetch {
  checkOptions(options)
  const {
    limit,
    retries = 4,
    maxWaitMs = 60_000,
    concurrency = Infinity,
    store,
    dialect,
    idempotencyKey,
    clock,
  } = options
  const { random = Math.random, channel } = options as Inner
  const emit = apart(options.onEvent)
  const gates = Gates.of(limit, store, clock)
  const tabs = Tabs.of(channel, clock, (name) => hostOf(name))
  const send = options.fetch ?? ((input, init) => fetch(input, init))
  const hosts = new Map<string, Host>()
  const setup = { clock, random, concurrency, maxWaitMs, gates, emit, peers: () => tabs?.peers ?? 1 }
  const tell = tabs === undefined ? () => {} : tabs.tell.bind(tabs)
  const calls = { fetch: send, retries, maxWaitMs, dialect, clock, random, emit, tell }
  let arrivals = 0

  function hostOf(name: string): Host {
    const known = hosts.get(name)
    hosts.delete(name)
    if (known !== undefined) return remember(known)
    for (const [other, host] of hosts) if (hosts.size >= MOST_HOSTS && host.isIdle) hosts.delete(other)
    return remember(new Host(name, setup))
  }

  /** The one that was called last is forgotten last. */
  function remember(host: Host): Host {
    hosts.set(host.name, host)
    return host
  }

  function callOf(input: string | URL | Request, init: PoliteInit): PoliteCall {
    checkCall(init)
    const outgoing = new Outgoing(input, init, idempotencyKey)
    const { weight, deadlineMs = options.deadlineMs } = init
    const own = { ...(weight !== undefined && { weight }), ...(deadlineMs !== undefined && { deadlineMs }) }
    return new PoliteCall(calls, hostOf(outgoing.origin), outgoing, { ...own, arrival: ++arrivals })
  }

  const polite = async (input: string | URL | Request, init: PoliteInit = {}) => callOf(input, init).run()
  return Object.assign(polite, {
    turn: async (url: string | URL, init: PoliteInit = {}) => callOf(url, init).turn(),
    state: () => ({ hosts: [...hosts.values()].map((host) => host.state()) }),
    close: () => tabs?.close(),
  })
}

/** An error of a listener is reported as one, and harms no call. */
function apart(onEvent: PoliteOptions['onEvent']): (event: ClientEvent) => void {
  if (onEvent === undefined) return () => {}
  return (event) => {
    try {
      onEvent(event)
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    }
  }
}
