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
          this.#send(batch, kind)
          batch = []
        }
        if (batch.length === 0) [kind, nowUs] = [own, question.nowUs]
        batch.push(question)
      }
      this.#send(batch, kind)
    }
  }

  #send(batch: readonly Question[], kind: Kind): void {
    this.#flying++
    const call = new Call(this, batch, kind)
    if (call.nowUs >= 0 || this.#aheadUs !== undefined) call.send()
    else this.#meet().then(call.send, call.fail)
  }

  /** One try of a call, and who hears of it. */
  try(call: Call): void {
    const { nowUs, kind, groups } = call
    const sentUs = ticks.freshUs()
    const aheadUs = this.#aheadUs ?? 0
    const lifeUs = Math.min(call.deadlineUs, sentUs + LIFE_US * 2 ** (call.tries - 1))
    const timing = {
      nowUs,
      expiresUs: nowUs < 0 && lifeUs !== Infinity ? lifeUs + aheadUs : 0,
      aroundUs: call.aroundUs < 0 ? sentUs + aheadUs : call.aroundUs,
    }
    const short = kind === 'quick' ? encodeQuick(groups, this.#names, timing) : undefined
    const { keys, args } = short ?? encode(groups, this.#names, timing, kind)
    const told = (numbers: unknown) => {
      try {
        const reply = new Reply(numbers as unknown[], short ? groups.length : 0)
        if (nowUs < 0) this.#learn(reply.nowUs, sentUs)
        call.told(reply)
      } catch (reason) {
        call.fail(reason)
      }
    }
    const failed = (reason: unknown) => {
      const again = this.#script.again(reason, keys, args)
      if (again === undefined) call.failed(reason)
      else again.then(told, (why) => call.failed(why))
    }
    this.#script.begin(keys, args).then(told, failed)
  }

  over(questions: number): void {
    this.#flying--
    this.#pending -= questions
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

/** Groups that are decided by one call. It is tried until there is an answer to decide by; all that is tried again is known not to have been
 *  done. Without promises of its own: there is one of these for every few decisions. */
class Call {
  readonly kind: Kind
  readonly nowUs: number
  groups: readonly Group[]
  readonly deadlineUs: number
  /** For which instant calendars are opened; below 0: now. */
  aroundUs: number
  tries = 0
  readonly #caller: Caller
  #batch: readonly Question[]
  readonly #retryUntilUs: number

  constructor(caller: Caller, batch: readonly Question[], kind: Kind) {
    let deadlineUs = 0
    for (const question of batch) deadlineUs = Math.max(deadlineUs, question.deadlineUs)
    this.#caller = caller
    this.#batch = batch
    this.kind = kind
    this.nowUs = this.aroundUs = (batch[0] as Question).nowUs
    this.groups = batch.map(({ group }) => group)
    this.deadlineUs = deadlineUs
    this.#retryUntilUs = Math.min(deadlineUs, ticks.freshUs() + LONGEST_RETRYING_US)
  }

  readonly send = (): void => {
    this.tries++
    try {
      this.#caller.try(this)
    } catch (reason) {
      this.fail(reason)
    }
  }

  told(reply: Reply): void {
    const { trouble } = reply
    if (trouble === undefined) {
      for (const question of this.#batch) question.resolve(reply.result(question.group))
      this.#end()
      return
    }
    if (trouble === OTHER_PAGE) this.aroundUs = reply.nowUs
    if ((trouble !== LATE && this.tries >= MOST_TRIES) || ticks.freshUs() > this.deadlineUs)
      this.fail(new Late('the call came to Redis after its deadline'))
    else this.send()
  }

  failed(reason: unknown): void {
    // A slot on the move between nodes: soon it is on one of them.
    if (!isError(reason, 'TRYAGAIN') || ticks.freshUs() > this.#retryUntilUs) this.fail(reason)
    else setTimeout(this.send, Math.min(RETRY_MS * 2 ** (this.tries - 1), LONGEST_RETRY_MS))
  }

  readonly fail = (reason: unknown): void => {
    for (const question of this.#batch) question.reject(reason)
    this.#end()
  }

  /** V8 may come to make these among old objects, where they stay for long: they must not keep young ones alive, or each collection of
   *  those takes three times as long. */
  #end(): void {
    this.#caller.over(this.#batch.length)
    this.#batch = this.groups = []
  }
}
