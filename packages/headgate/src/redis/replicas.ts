import { HeadgateError } from '../errors.ts'
import type { Outcome, Result } from '../stores/store.ts'
import type { Connection } from './connection.ts'

/** What a master says of itself and its replicas. */
interface Replication {
  /** Another one after every failover. */
  readonly id: string
  readonly offset: number
  /** How far each replica is known to be. */
  readonly offsets: readonly number[]
}

const WAIT_MS = 100

/**
 * Sees to it that a lease is only spent when so many replicas know of it. A lease that they may not know of is left alone: it
 * ends by itself, at the expense of those who could have spent it.
 *
 * That WAIT was answered says nothing after a reconnect, so the offsets of the replicas are looked at, and whether it was the
 * same master all the time.
 */
export class Replicas {
  readonly #connection: Connection
  readonly #count: number
  #master = ''

  constructor(connection: Connection, count: number) {
    if (connection.cluster)
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        `"replicas" of "lease" is ${count}: in a cluster nobody can be asked for it, leave it out`,
        count,
      )
    this.#connection = connection
    this.#count = count
  }

  async confirm(result: Result): Promise<Result> {
    if (!result.outcomes.some(({ loan }) => loan !== undefined)) return result
    if (await this.#isSafe().catch(() => false)) return result
    return { ...result, outcomes: result.outcomes.map(withheld) }
  }

  async #isSafe(): Promise<boolean> {
    const { id, offset } = await this.#ask()
    const isSame = id === this.#master
    this.#master = id
    if (!isSame) return false
    await this.#connection.command('WAIT', String(this.#count), String(WAIT_MS))
    const after = await this.#ask()
    return after.id === id && after.offsets.filter((each) => each >= offset).length >= this.#count
  }

  async #ask(): Promise<Replication> {
    const text = String(await this.#connection.command('INFO', 'replication'))
    const offsets = [...text.matchAll(/^slave\d+:.*state=online,offset=(\d+)/gm)].map(([, offset]) => Number(offset))
    const [, id = ''] = /^master_replid:(\w+)/m.exec(text) ?? []
    const [, offset] = /^master_repl_offset:(\d+)/m.exec(text) ?? []
    return { id: /^role:master/m.test(text) ? id : '', offset: Number(offset ?? Infinity), offsets }
  }
}

/** As of a message that came again: nothing more is lent, and what is held ends when it would have. */
function withheld(outcome: Outcome): Outcome {
  const { loan } = outcome
  return loan === undefined ? outcome : { ...outcome, loan: { units: -1, kept: loan.kept, lifeUs: 0 } }
}
