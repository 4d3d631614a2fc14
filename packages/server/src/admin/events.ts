import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from 'headgate'
import type { Decided } from '../rules/rule-set.ts'
import type { Service, ServiceEvent, Watcher } from '../service.ts'
import { everySecond, since, type Telemetry } from '../telemetry/index.ts'
import type { Mask } from './mask.ts'
import { AdminError } from './problem.ts'
import { shownEvent } from './show.ts'

const MOST_KEPT = 1_000
const MOST_KEPT_CHARS = 500_000
const MOST_READERS = 50
/** More than a reader can have missed. Whoever is so far behind is not reading; it can come back with the last id it has. */
const MOST_UNREAD_BYTES = 1_048_576
const SAMPLES_PER_S = 10
const HEARTBEAT_S = 15

interface Kept {
  readonly n: number
  readonly text: string
}

/**
 * What happens, as server-sent events. What was changed is told at once, decisions are summed up once a second, and of
 * denials a few are shown. A reader that was away gets what it missed, up to a thousand of them, samples aside.
 */
export class Events implements Watcher {
  readonly #service: Service
  readonly #telemetry: Telemetry
  readonly #mask: Mask
  readonly #nowMs: () => number
  /** Names this process: ids of another one say nothing here. */
  readonly #epoch = Date.now().toString(36)
  readonly #kept: Kept[] = []
  readonly #readers = new Set<ServerResponse>()
  readonly #stop: () => void
  #before: Float64Array
  #keptChars = 0
  #n = 0
  #samples = SAMPLES_PER_S
  #seconds = 0

  constructor(service: Service, telemetry: Telemetry, mask: Mask, nowMs: () => number, clock: Clock | undefined) {
    this.#service = service
    this.#telemetry = telemetry
    this.#mask = mask
    this.#nowMs = nowMs
    this.#before = telemetry.counts.snapshot()
    const unwatch = service.watch(this)
    const silence = everySecond(clock, () => this.#tick())
    this.#stop = () => {
      unwatch()
      silence()
    }
  }

  close(): void {
    this.#stop()
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
  }

  get readers(): number {
    return this.#readers.size
  }

  onEvent(event: ServiceEvent): void {
    this.#publish(event.type, shownEvent(event, this.#mask))
  }

  onDecision(decision: Decided): void {
    if (decision.ok || this.#samples === 0 || this.#readers.size === 0) return
    this.#samples--
    const { limit, violated, cost, retryAfterMs, limits } = decision
    const keys = limits
      .filter(({ name }) => violated.includes(name))
      .map(({ name, key }) => [name, this.#mask.encoded(key)])
    const data = { atMs: this.#nowMs(), limit, keys: Object.fromEntries(keys), cost, retryAfterMs }
    this.#send(`event: denial\ndata: ${JSON.stringify(data)}\n\n`)
  }

  #tick(): void {
    this.#samples = SAMPLES_PER_S
    const { counts } = this.#telemetry
    const limits = since(counts, this.#before)
    this.#before = counts.snapshot()
    if (Object.keys(limits).length > 0) this.#publish('decisions', { limits })
    // Proxies close what is silent.
    if (++this.#seconds % HEARTBEAT_S === 0) this.#send(': still here\n\n')
  }

  #publish(type: string, data: object): void {
    const n = ++this.#n
    const text = `id: ${this.#epoch}-${n}\nevent: ${type}\ndata: ${JSON.stringify({ atMs: this.#nowMs(), ...data })}\n\n`
    this.#keep({ n, text })
    this.#send(text)
  }

  #keep(event: Kept): void {
    this.#kept.push(event)
    this.#keptChars += event.text.length
    while (this.#kept.length > MOST_KEPT || this.#keptChars > MOST_KEPT_CHARS)
      this.#keptChars -= this.#kept.shift()?.text.length ?? 0
  }

  #send(text: string): void {
    for (const reader of this.#readers) this.#write(reader, text)
  }

  #write(reader: ServerResponse, text: string): void {
    reader.write(text)
    if (reader.writableLength <= MOST_UNREAD_BYTES) return
    this.#readers.delete(reader)
    reader.destroy()
  }

  /** Answers with the stream. */
  open(req: IncomingMessage, res: ServerResponse): void {
    if (this.#readers.size >= MOST_READERS)
      throw new AdminError('too_many_readers', `There are ${MOST_READERS} readers already.`)
    res.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    })
    if (req.method === 'HEAD') return void res.end()
    res.once('close', () => this.#readers.delete(res))
    this.#readers.add(res)
    this.#write(res, this.#greeting())
    const last = req.headers['last-event-id']
    if (typeof last === 'string' && last !== '') this.#resume(res, last)
  }

  #greeting(): string {
    const { generation, limitNames } = this.#service.rules
    const { degraded } = this.#telemetry
    return `retry: 2000\nevent: hello\ndata: ${JSON.stringify({ atMs: this.#nowMs(), generation, degraded, limits: limitNames })}\n\n`
  }

  /** All at once: these are at most a thousand, and what does not fit is not read. */
  #resume(res: ServerResponse, last: string): void {
    const [epoch, count] = last.split('-')
    const seen = epoch === this.#epoch ? Number(count) : Number.NaN
    const oldest = this.#kept[0]?.n ?? this.#n + 1
    if (!(seen >= oldest - 1 && seen <= this.#n))
      this.#write(res, `event: gap\ndata: ${JSON.stringify({ atMs: this.#nowMs() })}\n\n`)
    const missed = this.#kept.filter(({ n }) => !(n <= seen))
    if (missed.length > 0) this.#write(res, missed.map(({ text }) => text).join(''))
  }
}
