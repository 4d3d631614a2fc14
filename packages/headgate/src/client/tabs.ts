import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import type { Policy } from '../headers/parse.ts'
import type { Host } from './host.ts'
import { amount, pick, type Told } from './told.ts'

const NAME = 'headgate-client'
/** A tab that has not been heard of for as long does not share the budget any more. */
const ALIVE_MS = 5_000

/** A BroadcastChannel, as far as it is needed. */
export interface Channel {
  postMessage(message: unknown): void
  close(): void
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void
}

/** What one tab tells the others: what it was told. */
interface Message {
  readonly from: string
  readonly host: string
  readonly route: string
  readonly policies: readonly Policy[]
  readonly pauseMs: number
}

/** Tabs of a browser that call the same hosts: what one is told all know, and each sends its part. */
export class Tabs {
  readonly #channel: Channel
  readonly #ticks: Ticks
  readonly #self = [...crypto.getRandomValues(new Uint8Array(8))].join('.')
  readonly #heardMs = new Map<string, number>()
  #isClosed = false

  constructor(channel: Channel, clock: Clock | undefined, hostOf: (name: string) => Host) {
    this.#channel = channel
    this.#ticks = ticksOf(clock)
    channel.addEventListener('message', ({ data }) => {
      const message = readMessage(data)
      if (message === undefined || message.from === this.#self || this.#isClosed) return
      this.#heardMs.set(message.from, this.#nowMs())
      hostOf(message.host).hear(message.route, message.policies, message.pauseMs)
    })
  }

  /** Only in browsers: elsewhere an open channel keeps a process alive, and processes share by a store. */
  static of(channel: Channel | undefined, clock: Clock | undefined, hostOf: (name: string) => Host): Tabs | undefined {
    const { document, BroadcastChannel: Made } = globalThis as {
      document?: unknown
      BroadcastChannel?: new (name: string) => Channel
    }
    const own = channel ?? (document !== undefined && Made !== undefined ? new Made(NAME) : undefined)
    return own === undefined ? undefined : new Tabs(own, clock, hostOf)
  }

  #nowMs(): number {
    return this.#ticks.freshUs() / 1000
  }

  /** How many share the budgets, this one included. */
  get peers(): number {
    const nowMs = this.#nowMs()
    for (const [tab, heardMs] of this.#heardMs) if (nowMs - heardMs > ALIVE_MS) this.#heardMs.delete(tab)
    return this.#heardMs.size + 1
  }

  tell({ name: host }: Host, route: string, { policies = [] }: Told, pauseMs: number): void {
    if (this.#isClosed || (policies.length === 0 && pauseMs === 0)) return
    this.#channel.postMessage({ from: this.#self, host, route, policies, pauseMs } satisfies Message)
  }

  close(): void {
    this.#isClosed = true
    this.#heardMs.clear()
    this.#channel.close()
  }
}

/** Anybody on the page can post to the channel: what makes no sense is not heard. */
function readMessage(data: unknown): Message | undefined {
  const [from, host, route] = [pick(data, 'from'), pick(data, 'host'), pick(data, 'route')]
  const [policies, pauseMs] = [pick(data, 'policies'), amount(pick(data, 'pauseMs'))]
  if (typeof from !== 'string' || typeof host !== 'string' || typeof route !== 'string') return undefined
  if (!Array.isArray(policies) || policies.length > 100 || pauseMs === undefined) return undefined
  return { from, host, route, policies: policies.filter(isPolicy), pauseMs }
}

function isPolicy(policy: unknown): policy is Policy {
  const numbers = ['limit', 'remaining', 'windowMs', 'resetAfterMs'].map((name) => pick(policy, name))
  return (
    typeof pick(policy, 'source') === 'string' &&
    numbers.every((each) => each === undefined || amount(each) !== undefined)
  )
}
