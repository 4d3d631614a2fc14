import { endOfTurn, ticksOf } from '../clock.ts'
import type { Group, Result } from '../stores/store.ts'
import { type Connection, isError, Late } from './connection.ts'
import { LATE, OTHER_PAGE, script } from './script.ts'
import { Script } from './script-call.ts'
import { encode, encodeQuick, type Kind, kindOf, type Names, type Repeat, Reply } from './wire.ts'

/** A group, when it is to be decided (below 0: now, by the clock of Redis), until when somebody waits for it, and who. */
export interface Question {
  readonly group: Group
  readonly nowUs: number
  readonly deadlineUs: number
  resolve(result: Result | Repeat): void
  reject(reason: unknown): void
}

/** So many groups go in one call: more would keep others from Redis for too long. */
const MOST_AT_ONCE = 32
/** So many may be on their way or wait for that. Who comes then is told at once. */
const MOST_PENDING = 20_000
const MOST_TRIES = 5
/** A slot on the move is asked for again after this, then after twice that, and so on up to the longest. */
const RETRY_MS = 2
const LONGEST_RETRY_MS = 20
const LONGEST_RETRYING_US = 1_000_000
/** A call that does not get to Redis within this, and twice as long with every try, is sent anew: it expires there before clients
 *  that reconnect, after 50 ms at the earliest, send it a second time. */
const LIFE_US = 45_000
const ticks = ticksOf(undefined)

/**
 * Sends groups to Redis, those of one turn of the event loop in one call. While nothing is under way a group goes at the end of
 * the current microtasks: alone it waits for nobody.
 */
export class Caller {
  readonly #connection: Connection
  readonly #script: Script
  readonly #names: Names
  /** Waiting to be sent, by slot; without a cluster all in one. */
  #queues = new Map<number, Question[]>()
  readonly #flush = () => this.#sendAll()
  #scheduled = false
  #pending = 0
  #flying = 0
  /** How far the clock of Redis is ahead of this process's. */
  #aheadUs: number | undefined
  #meeting: Promise<void> | undefined

  constructor(connection: Connection, names: Names) {
    this.#connection = connection
    this.#names = names
    this.#script = new Script(connection, script)
  }

  ask(question: Question, slot: number): void {
    if (this.#pending >= MOST_PENDING) {
      const reason = new Error(`${MOST_PENDING} decisions are waiting for Redis already`)
      queueMicrotask(() => question.reject(reason))
      return
    }
    this.#pending++
    const queue = this.#queues.get(slot)
    if (queue === undefined) this.#queues.set(slot, [question])
    else queue.push(question)
    if (this.#scheduled) return
    this.#scheduled = true
    if (this.#flying === 0) queueMicrotask(this.#flush)
    else endOfTurn(this.#flush)
  }

  #sendAll(): void {
    this.#scheduled = false
    const queues = this.#queues
    this.#queues = new Map()
    for (const queue of queues.values()) {
      let [batch, kind, nowUs]: [Question[], Kind, number] = [[], 'whole', 0]
      for (const question of queue) {
        // One kind of call, and one time, for all in it.
        const own = kindOf(question.group)
        const other = own !== kind || question.nowUs !== nowUs
        if (batch.length === MOST_AT_ONCE || (other && batch.length > 0)) {
          void this.#send(batch, kind)
          batch = []
        }
        if (batch.length === 0) [kind, nowUs] = [own, question.nowUs]
        batch.push(question)
      }
      void this.#send(batch, kind)
    }
  }

  async #send(batch: readonly Question[], kind: Kind): Promise<void> {
    this.#flying++
    try {
      const reply = await this.#call(batch, kind)
      for (const question of batch) question.resolve(reply.result(question.group))
    } catch (reason) {
      for (const question of batch) question.reject(reason)
    } finally {
      this.#flying--
      this.#pending -= batch.length
    }
  }

  /** Asks until there is an answer to decide by. All that is tried again is known not to have been done. */
  async #call(batch: readonly Question[], kind: Kind): Promise<Reply> {
    const { nowUs } = batch[0] as Question
    const groups = batch.map(({ group }) => group)
    let deadlineUs = 0
    for (const question of batch) deadlineUs = Math.max(deadlineUs, question.deadlineUs)
    const retryUntilUs = Math.min(deadlineUs, ticks.freshUs() + LONGEST_RETRYING_US)
    let aroundUs = nowUs
    if (nowUs < 0 && this.#aheadUs === undefined) await this.#meet()
    for (let tries = 1; ; tries++) {
      const sentUs = ticks.freshUs()
      const aheadUs = this.#aheadUs ?? 0
      const lifeUs = Math.min(deadlineUs, sentUs + LIFE_US * 2 ** (tries - 1))
      const timing = {
        nowUs,
        expiresUs: nowUs < 0 && lifeUs !== Infinity ? lifeUs + aheadUs : 0,
        aroundUs: aroundUs < 0 ? sentUs + aheadUs : aroundUs,
      }
      try {
        const short = kind === 'quick' ? encodeQuick(groups, this.#names, timing) : undefined
        const { keys, args } = short ?? encode(groups, this.#names, timing, kind)
        const reply = new Reply((await this.#script.run(keys, args)) as unknown[], short ? groups.length : 0)
        if (nowUs < 0) this.#learn(reply.nowUs, sentUs)
        const { trouble } = reply
        if (trouble === undefined) return reply
        if (trouble === OTHER_PAGE) aroundUs = reply.nowUs
        if ((trouble !== LATE && tries >= MOST_TRIES) || ticks.freshUs() > deadlineUs)
          throw new Late('the call came to Redis after its deadline')
      } catch (reason) {
        // A slot on the move between nodes: soon it is on one of them.
        if (!isError(reason, 'TRYAGAIN') || ticks.freshUs() > retryUntilUs) throw reason
        const ms = Math.min(RETRY_MS * 2 ** (tries - 1), LONGEST_RETRY_MS)
        await new Promise<void>((resolve) => void setTimeout(resolve, ms))
      }
    }
  }

  /** Before anything can expire by the clock of Redis, that has to be known. */
  #meet(): Promise<void> {
    this.#meeting ??= this.#askTime().finally(() => {
      this.#meeting = undefined
    })
    return this.#meeting
  }

  async #askTime(): Promise<void> {
    const sentUs = ticks.freshUs()
    const [seconds, us] = (await this.#connection.command('TIME')) as unknown[]
    this.#learn(Number(seconds) * 1_000_000 + Number(us), sentUs)
  }

  /**
   * Redis told its time between then and now. How far it is ahead is believed as long as that can be: a reply that was long on
   * its way says little, and must not let calls after it live longer than somebody waits for them.
   */
  #learn(redisUs: number, sentUs: number): void {
    const most = redisUs - sentUs
    const least = redisUs - ticks.freshUs()
    this.#aheadUs = Math.max(least, Math.min(this.#aheadUs ?? most, most))
  }
}
