import { after, endOfTurn, ticksOf } from '../clock.ts'
import type { Group, Result } from '../stores/store.ts'
import { failureOf, RemoteFailed, tooLate } from './failures.ts'
import { decodeResult, definedBy, encodeMessage, type Message, type Reply } from './protocol.ts'
import { readReply } from './reply.ts'

/** How messages get to the process that keeps the counts, and its replies back. */
export interface Transport {
  /** Rejects once the signal aborts: nobody reads the reply any more. */
  ask(message: Message, signal: AbortSignal): Promise<unknown>
  close?(): void
}

export interface Question {
  readonly group: Group
  readonly nowUs: number | undefined
  readonly deadlineUs: number
  readonly resolve: (result: Result) => void
  readonly reject: (reason: unknown) => void
  again?: boolean
}

/** So many groups, and about so much text, go in one message; so many messages are under way; so many groups wait or are. */
const MOST_AT_ONCE = 128
const MOST_TEXT = 262_144
const MOST_FLYING = 4
const MOST_PENDING = 20_000
const ticks = ticksOf(undefined)

/**
 * Sends groups, those of one turn of the event loop in one message. While nothing is under way a group goes at the end of the
 * current microtasks; while much is, it waits for a reply and goes with all that came meanwhile.
 */
export class Batches {
  readonly #transport: Transport
  readonly #timeoutMs: number
  readonly #flying = new Set<AbortController>()
  readonly #flush = () => this.#sendAll()
  #queue: Question[] = []
  #scheduled = false
  #pending = 0
  #closed = false
  /** How far the clock of the other side is ahead of this process's. */
  #aheadUs: number | undefined
  #meeting: Promise<void> | undefined

  constructor(transport: Transport, timeoutMs: number) {
    this.#transport = transport
    this.#timeoutMs = timeoutMs
  }

  ask(question: Question): void {
    try {
      // Who brings what cannot be sent is told alone.
      for (const { counter } of question.group.ops) definedBy(counter)
      if (this.#closed) throw closed()
      if (this.#pending >= MOST_PENDING)
        throw new RemoteFailed('full', `${MOST_PENDING} decisions are waiting for the other side already`)
    } catch (reason) {
      question.reject(reason)
      return
    }
    this.#pending++
    this.#queue.push(question)
    this.#schedule()
  }

  close(): void {
    this.#closed = true
    for (const question of this.#queue.splice(0)) this.#reject(question, closed())
    for (const flight of this.#flying) flight.abort()
    this.#transport.close?.()
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0 || this.#flying.size >= MOST_FLYING) return
    this.#scheduled = true
    if (this.#flying.size === 0) queueMicrotask(this.#flush)
    else endOfTurn(this.#flush)
  }

  #sendAll(): void {
    this.#scheduled = false
    while (this.#queue.length > 0 && this.#flying.size < MOST_FLYING) {
      const batch = this.#nextBatch()
      if (batch.length > 0) void this.#send(batch)
    }
  }

  /** Of one time, told or not, and without those that nobody waits for. */
  #nextBatch(): Question[] {
    const startUs = ticks.freshUs()
    const batch: Question[] = []
    let [taken, text] = [0, 0]
    for (const question of this.#queue) {
      text += textOf(question.group)
      if (batch.length === MOST_AT_ONCE || (batch.length > 0 && text > MOST_TEXT)) break
      if (batch[0] !== undefined && batch[0].nowUs !== question.nowUs) break
      taken++
      if (question.deadlineUs > startUs) batch.push(question)
      else this.#reject(question, tooLate())
    }
    this.#queue = this.#queue.slice(taken)
    return batch
  }

  async #send(batch: readonly Question[]): Promise<void> {
    const flight = new AbortController()
    this.#flying.add(flight)
    try {
      const results = await this.#call(batch, flight)
      for (const [i, question] of batch.entries()) this.#answer(question, results[i] as Reply['results'][number])
    } catch (reason) {
      for (const question of batch) this.#failed(question, reason)
    } finally {
      this.#flying.delete(flight)
      this.#schedule()
    }
  }

  async #call(batch: readonly Question[], flight: AbortController): Promise<Reply['results']> {
    let deadlineUs = 0
    for (const question of batch) deadlineUs = Math.max(deadlineUs, question.deadlineUs)
    const leftMs = (deadlineUs - ticks.freshUs()) / 1000
    // Answers are read for as long again as somebody waits for them: what they charged can then be given back.
    return this.#within(Math.min(this.#timeoutMs, 2 * leftMs), flight, async () => {
      // Before anything can expire by the clock of the other side, that has to be known.
      if (deadlineUs !== Infinity && this.#aheadUs === undefined) await this.meet()
      if (ticks.freshUs() >= deadlineUs) throw tooLate()
      const expiresUs = deadlineUs === Infinity ? undefined : Math.floor(deadlineUs + (this.#aheadUs ?? 0))
      const groups = batch.map(({ group }) => group)
      const { results } = await this.#exchange(encodeMessage(groups, batch[0]?.nowUs, expiresUs), flight.signal)
      return results
    })
  }

  /** Learns the clock of the other side, and whether it answers at all. */
  meet(): Promise<void> {
    if (this.#meeting === undefined) {
      const flight = new AbortController()
      const hello = () => this.#exchange(encodeMessage([]), flight.signal)
      this.#meeting = this.#within(this.#timeoutMs, flight, hello)
        .then(() => {})
        .finally(() => {
          this.#meeting = undefined
        })
    }
    return this.#meeting
  }

  /** A process that was busy finds its timers before the answers that came meanwhile: those are read first. */
  async #within<T>(ms: number, flight: AbortController, work: () => Promise<T>): Promise<T> {
    let over = false
    const cancel = after(undefined, Math.max(1, ms), () => {
      endOfTurn(() => {
        over = true
        flight.abort()
      })
    })
    const aborted = new Promise<never>((_, reject) => {
      flight.signal.addEventListener('abort', () => {
        reject(over ? new RemoteFailed('timeout', `no answer within ${Math.ceil(ms)} ms`) : closed())
      })
    })
    try {
      return await Promise.race([work(), aborted])
    } finally {
      cancel()
    }
  }

  async #exchange(message: Message, signal: AbortSignal): Promise<Reply> {
    const sentUs = ticks.freshUs()
    const reply = readReply(await this.#transport.ask(message, signal), message)
    // Believed as long as that can be: a reply that was long on its way says little.
    const [most, least] = [reply.nowUs - sentUs, reply.nowUs - ticks.freshUs()]
    this.#aheadUs = Math.max(least, Math.min(this.#aheadUs ?? most, most))
    return reply
  }

  #answer(question: Question, result: Reply['results'][number]): void {
    if ('error' in result) this.#reject(question, failureOf(result))
    else {
      this.#pending--
      question.resolve(decodeResult(result))
    }
  }

  /** Whether a message that got no answer was read nobody knows. What does no harm twice is asked once more. */
  #failed(question: Question, reason: unknown): void {
    const lost = reason instanceof RemoteFailed && reason.kind === undefined
    if (!lost || question.again || this.#closed || !isRepeatable(question.group)) this.#reject(question, reason)
    else {
      question.again = true
      this.#queue.push(question)
    }
  }

  #reject(question: Question, reason: unknown): void {
    this.#pending--
    question.reject(reason)
  }
}

function closed(): RemoteFailed {
  return new RemoteFailed('closed', 'the store was closed')
}

/** Looks and renewals change nothing that a second one would change again; takes with an id are charged once. */
function isRepeatable({ ops, id, idUs = 0, forget }: Group): boolean {
  if (forget !== undefined) return false
  if (id !== undefined && idUs > 0) return ops.every(({ verb }) => verb === 'take' || verb === 'peek')
  return ops.every(({ verb }) => verb === 'peek' || verb === 'renew')
}

/** About how long a group is as text. */
function textOf({ ops, id = '', memo = '' }: Group): number {
  let text = id.length + memo.length
  for (const { key } of ops) text += key.length + 64
  return text
}
