import { ticksOf } from '../clock.ts'
import type { Group, Result } from '../stores/store.ts'
import type { Connection } from './connection.ts'
import { script } from './script.ts'
import { encode, LATE, type Names, OTHER_PAGE, Reply } from './wire.ts'

interface Pending {
  readonly group: Group
  /** 0: the clock of Redis tells the time. */
  readonly nowUs: number
  readonly deadlineUs: number
  readonly resolve: (result: Result) => void
  readonly reject: (reason: unknown) => void
}

/** So many groups go in one call: more would keep others from Redis for too long. */
const MOST_AT_ONCE = 128
/** So many may be on their way or wait for that. Who comes then is told at once. */
const MOST_PENDING = 20_000
const MOST_TRIES = 5
const RETRY_MS = 2
const ticks = ticksOf(undefined)

/**
 * Sends groups to Redis, those of one turn of the event loop in one call. While nothing is under way a group goes at the end of
 * the current microtasks: alone it waits for nobody.
 */
export class Caller {
  readonly #connection: Connection
  readonly #names: Names
  /** Waiting to be sent, by slot; without a cluster all in one. */
  readonly #queues = new Map<number, Pending[]>()
  readonly #flush = () => this.#sendAll()
  #scheduled = false
  #pending = 0
  #flying = 0
  #sha: string | undefined
  /** How far the clock of Redis is ahead of this process's, at most. */
  #aheadUs: number | undefined

  constructor(connection: Connection, names: Names) {
    this.#connection = connection
    this.#names = names
    void sha1(script).then((sha) => {
      this.#sha = sha
    })
  }

  ask(group: Group, nowUs: number, deadlineUs: number, slot: number): Promise<Result> {
    if (this.#pending >= MOST_PENDING)
      return Promise.reject(new Error(`${MOST_PENDING} decisions are waiting for Redis already`))
    return new Promise((resolve, reject) => {
      this.#pending++
      this.#enqueue({ group, nowUs, deadlineUs, resolve, reject }, slot)
    })
  }

  #enqueue(pending: Pending, slot: number): void {
    const queue = this.#queues.get(slot)
    if (queue === undefined) this.#queues.set(slot, [pending])
    else queue.push(pending)
    if (this.#scheduled) return
    this.#scheduled = true
    if (this.#flying === 0) queueMicrotask(this.#flush)
    else endOfTurn(this.#flush)
  }

  #sendAll(): void {
    this.#scheduled = false
    for (const queue of this.#queues.values()) {
      for (let from = 0; from < queue.length; ) {
        // Groups that were told the time can only go with those that were told the same.
        const { nowUs } = queue[from] as Pending
        let to = from + 1
        while (to < queue.length && to - from < MOST_AT_ONCE && (queue[to] as Pending).nowUs === nowUs) to++
        void this.#send(queue.slice(from, to), nowUs)
        from = to
      }
    }
    this.#queues.clear()
  }

  async #send(batch: readonly Pending[], nowUs: number): Promise<void> {
    this.#flying++
    try {
      const reply = await this.#call(batch, nowUs)
      for (const { group, resolve } of batch) resolve(reply.result(group))
    } catch (reason) {
      for (const { reject } of batch) reject(reason)
    } finally {
      this.#flying--
      this.#pending -= batch.length
    }
  }

  /** Asks until there is an answer to decide by. All that is tried again is known not to have been done. */
  async #call(batch: readonly Pending[], nowUs: number): Promise<Reply> {
    const deadlineUs = Math.max(...batch.map((pending) => pending.deadlineUs))
    const groups = batch.map(({ group }) => group)
    let aroundUs = nowUs
    for (let tries = 1; ; tries++) {
      const sentUs = ticks.freshUs()
      const ahead = this.#aheadUs
      const expiresUs = nowUs > 0 || ahead === undefined || deadlineUs === Infinity ? 0 : deadlineUs + ahead
      const { keys, args } = encode(groups, this.#names, {
        nowUs,
        expiresUs,
        aroundUs: aroundUs || sentUs + (ahead ?? 0),
      })
      try {
        const reply = new Reply((await this.#evaluate(keys, args)) as unknown[])
        if (nowUs === 0) this.#aheadUs = reply.nowUs - sentUs
        if (reply.trouble === undefined) return reply
        if (reply.trouble === OTHER_PAGE) aroundUs = reply.nowUs
        if (tries === MOST_TRIES || (reply.trouble === LATE && ticks.freshUs() > deadlineUs))
          throw new Error('the call came to Redis after its deadline')
      } catch (reason) {
        // A slot on the move between nodes: soon it is on one of them.
        if (!startsWith(reason, 'TRYAGAIN') || tries === MOST_TRIES || ticks.freshUs() > deadlineUs) throw reason
        await new Promise<void>((resolve) => void setTimeout(resolve, RETRY_MS))
      }
    }
  }

  async #evaluate(keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    if (this.#sha === undefined) return this.#connection.eval(script, keys, args)
    try {
      return await this.#connection.evalsha(this.#sha, keys, args)
    } catch (reason) {
      if (!startsWith(reason, 'NOSCRIPT')) throw reason
      // Nothing was done: this call brings the script along, and the server keeps it.
      return this.#connection.eval(script, keys, args)
    }
  }
}

function startsWith(reason: unknown, word: string): boolean {
  return reason instanceof Error && reason.message.includes(word)
}

const endOfTurn: (call: () => void) => unknown =
  typeof setImmediate === 'function' ? setImmediate : (call) => setTimeout(call, 0)

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
