import type { Api } from './api.ts'
import type { ServerEvent } from './event-parser.ts'
import { Series, type Tally } from './series.ts'
import { type Connection, follow } from './stream.ts'
import type { Exception, ShownKey } from './types.ts'

/** Something that was changed, or that failed. */
export interface Happening {
  readonly atMs: number
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface Denial {
  readonly atMs: number
  readonly limit: string
  readonly keys: Readonly<Record<string, ShownKey>>
  readonly retryAfterMs: number | null
  /** How often of late. */
  readonly times: number
}

const [MOST_HAPPENINGS, MOST_DENIALS] = [60, 12]

/** All that the stream has told, and whether it is still telling. */
export class Live {
  readonly series = new Series()
  connection: Connection = 'connecting'
  happenings: readonly Happening[] = []
  denials: readonly Denial[] = []
  generation: number | undefined
  storeState: 'up' | 'down' = 'up'
  /** Grows with every change that somebody made: what was asked for before may be old. */
  changes = 0
  /** When the service was last heard, by this machine's clock. */
  heardMs = 0
  #aheadMs = 0
  #isCalm = true
  #isChanged = false
  /** From when to when the service was not heard before the last greeting. */
  #away: { readonly fromMs: number; readonly toMs: number } | undefined
  readonly #listeners = new Set<() => void>()
  readonly #stop: () => void

  constructor(api: Api) {
    const unfollow = follow(api, {
      onEvent: (event) => this.#hear(event),
      onConnection: (state) => this.#connect(state),
    })
    const timer = setInterval(() => this.#tick(), 1_000)
    this.#stop = () => {
      unfollow()
      clearInterval(timer)
    }
  }

  close(): void {
    this.#stop()
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #tick(): void {
    if (this.#isChanged) this.changes++
    this.#isChanged = false
    this.#isCalm = true
    this.#tell()
  }

  /** At once, then once a second: whoever asks again for each of many changes would be refused. */
  #change(): void {
    if (this.#isCalm) this.changes++
    else this.#isChanged = true
    this.#isCalm = false
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }

  /** By the clock of the service. While it is not heard its time stands still: nothing is known of later seconds. */
  get nowMs(): number {
    const isAway = this.connection !== 'live' && this.heardMs > 0
    return (isAway ? this.heardMs : Date.now()) + this.#aheadMs
  }

  #connect(state: Connection): void {
    if (this.connection === 'live') this.heardMs = Date.now()
    this.connection = state
    this.#tell()
  }

  #hear({ event, data: text }: ServerEvent): void {
    const data = JSON.parse(text) as Readonly<Record<string, unknown>> & { readonly atMs: number }
    if (event === 'hello') this.#greet(data)
    else if (event === 'gap') this.#miss()
    else if (event === 'decisions') this.series.add(data.atMs, data.limits as Readonly<Record<string, Tally>>)
    else if (event === 'denial') this.#deny(data as unknown as Denial)
    else this.#note({ atMs: data.atMs, type: event, data })
    this.heardMs = Date.now()
  }

  #greet(data: Readonly<Record<string, unknown>> & { readonly atMs: number }): void {
    this.#away = this.heardMs === 0 ? undefined : { fromMs: this.heardMs + this.#aheadMs, toMs: data.atMs }
    this.#aheadMs = data.atMs - Date.now()
    this.series.know(data.atMs)
    this.generation = data.generation as number
    this.storeState = data.degraded === true ? 'down' : 'up'
    this.#change()
  }

  /** Who is denied again and again is shown once. */
  #deny(denial: Denial): void {
    const name = ({ limit, keys }: Denial) => JSON.stringify([limit, keys])
    const before = this.denials.find((each) => name(each) === name(denial))
    const others = this.denials.filter((each) => each !== before)
    this.denials = [{ ...denial, times: (before?.times ?? 0) + 1 }, ...others].slice(0, MOST_DENIALS)
  }

  /** The service cannot tell all that happened meanwhile. What it tells after this makes the gap smaller. */
  #miss(): void {
    if (this.#away !== undefined) this.series.miss(this.#away.fromMs, this.#away.toMs)
  }

  #note(happening: Happening): void {
    const { type, data } = happening
    this.happenings = [happening, ...this.happenings].sort((a, b) => b.atMs - a.atMs).slice(0, MOST_HAPPENINGS)
    if (type === 'rules') this.generation = data.generation as number
    if (type === 'store') this.storeState = data.state === 'down' ? 'down' : 'up'
    this.#change()
    this.#tell()
  }
}

/** In a few words. */
export function describe({ type, data }: Happening): string {
  const target = (of: unknown) => {
    const { limit, key } = (of ?? {}) as Exception
    return `${limit}${key === undefined ? '' : ` · ${[key].flat().join(', ')}`}`
  }
  const mode = data.mode as { mode: string; enforcePercent: number } | undefined
  switch (type) {
    case 'rules':
      return `Rules of generation ${data.generation} hold (${data.origin}); ${list(data.changed) || 'no limit'} changed`
    case 'rules-refused':
      return `Rules refused (${data.origin}), the last good ones hold: ${data.reason}`
    case 'mode': {
      const share = mode?.mode === 'enforce' && mode.enforcePercent < 100 ? ` for ${mode.enforcePercent}% of keys` : ''
      return `${data.limit}: mode ${mode?.mode}${share}`
    }
    case 'override':
      return `${data.lifted ? 'Override ended' : 'Override'}: ${target(data.override)}`
    case 'block':
      return `${data.lifted ? 'Block ended' : 'Blocked'}: ${target(data.block)}`
    case 'reset':
      return `Reset: ${target(data)}`
    case 'store':
      return `The store is ${data.state}${data.error ? `: ${data.error}` : ''}`
    case 'breaker':
      return `The breaker of ${data.url} is ${data.state}`
    default:
      return type
  }
}

function list(names: unknown): string {
  return Array.isArray(names) ? names.join(', ') : ''
}
