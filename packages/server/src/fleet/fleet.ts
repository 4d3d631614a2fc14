import { HeadgateError } from 'headgate'
import type { OverloadTuning } from 'headgate/overload'
import type { Cluster, Redis } from 'ioredis'
import type { Log } from '../log.ts'
import type { LimitMode } from '../rules/rule-set.ts'
import type { KeptBlock, KeptOverride, Service, ServiceEvent } from '../service.ts'

/** Rules as they were put: the text, which number they have, who put them. */
export interface StoredRules {
  readonly generation: number
  readonly text: string
  readonly origin: string
}

export interface FleetOptions {
  readonly service: Service
  readonly client: Redis | Cluster
  readonly prefix: string
  readonly log: Log
  /** Whether what changes here is told to the others; not by workers, whose primary does. */
  readonly tells: boolean
  /** Makes rules of a text hold here, or those of the file again; throws if they cannot be read. */
  apply(rules: StoredRules | undefined): void
}

type Change = { readonly field: string /** Undefined: it is over. */; readonly text: string | undefined }

/** Told of a reset or the end of a block. It names no key: what is only told is in nobody's hash, and keys may be secrets. */
const GIVEN_BACK = 'given-back'

/** How often all is read again, for what a broken connection may have kept from being told. */
const REFRESH_MS = 10_000

/** Who changes rules waits for an answer, and is not to be surprised later by a change that failed. */
const ANSWER_MS = 2_000

const TOO_LATE = 'it was asked too late'

const NOW_MS = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)`

/** Puts rules if nobody else did meanwhile and it is not too late, and says which generation holds. */
const PUT = `${NOW_MS}
if nowMs > tonumber(ARGV[5]) then return { -1, 0 } end
local current = redis.call('HGET', KEYS[1], 'rules')
local generation = math.max(current and cjson.decode(current).generation or 0, tonumber(ARGV[2]))
if ARGV[1] ~= '' and tonumber(ARGV[1]) ~= generation then return { 0, generation } end
generation = generation + 1
redis.call('HSET', KEYS[1], 'rules', cjson.encode({ generation = generation, text = ARGV[3], origin = ARGV[4] }))
redis.call('PUBLISH', KEYS[1], 'rules')
return { 1, generation }`

/** Drops rules that were put, unless it is too late. */
const DROP = `${NOW_MS}
if nowMs > tonumber(ARGV[1]) then return 0 end
redis.call('HDEL', KEYS[1], 'rules')
redis.call('PUBLISH', KEYS[1], 'rules')
return 1`

/**
 * What all instances on one Redis share beside counts: rules that were put, modes, exceptions and blocks. They are the fields
 * of one hash, and each change is told by its name; who missed it finds it at the next look.
 */
export class Fleet {
  readonly #options: FleetOptions
  readonly #key: string
  readonly #subscriber: Redis | Cluster
  readonly #timer: NodeJS.Timeout
  readonly #unwatch: () => void
  /** What is applied here, by field, as it was read. */
  readonly #known = new Map<string, string>()
  /** What was changed here and is not written yet. It holds here: no read undoes it, and it is written once Redis answers. */
  readonly #pending = new Map<string, Change>()
  /** A change that comes from the others is not told to them again. */
  #applying = false
  #reading: Promise<void> = Promise.resolve()

  constructor(options: FleetOptions) {
    this.#options = options
    this.#key = `${options.prefix}:~fleet`
    this.#subscriber = subscriberOf(options.client)
    this.#subscriber.on('error', () => {}) // told by the store's health
    this.#subscriber.on('message', (_channel: string, news: string) => {
      if (news === GIVEN_BACK) options.service.store.forgetDenials?.()
      else void this.#inTurn(() => this.#look(news))
    })
    this.#subscriber.on('ready', () => {
      this.#subscriber.subscribe(this.#key).then(
        () => {
          options.service.store.forgetDenials?.() // what was told meanwhile was not heard
          return this.refresh()
        },
        () => {},
      )
    })
    this.#timer = setInterval(() => void this.refresh(), REFRESH_MS)
    this.#timer.unref()
    this.#unwatch = options.service.watch({ onEvent: (event) => options.tells && this.#tell(event) })
  }

  /** Not put: somebody else did meanwhile, and `generation` is theirs. */
  async putRules(
    text: string,
    origin: string,
    expected: number | undefined,
  ): Promise<{ put: boolean; generation: number }> {
    const own = this.#options.service.rules.generation
    const args = [expected ?? '', own, text, origin, await this.#untilMs()]
    const [put, generation] = (await this.#ask(PUT, ...args)) as [number, number]
    if (put < 0) throw storeFailed(TOO_LATE)
    if (put === 1) await this.refresh()
    return { put: put === 1, generation }
  }

  /** By the clock of Redis, until when somebody waits for an answer. */
  async #untilMs(): Promise<number> {
    return ((await this.#ask(`${NOW_MS}\nreturn nowMs`)) as number) + ANSWER_MS
  }

  /** Where the counts are asked too, in time. */
  async #ask(script: string, ...args: (string | number)[]): Promise<unknown> {
    return inTime(this.#options.client.eval(script, 1, this.#key, ...args))
  }

  /** Back to what the files say. */
  async dropRules(): Promise<void> {
    if ((await this.#ask(DROP, await this.#untilMs())) === 0) throw storeFailed(TOO_LATE)
    await this.refresh()
  }

  /** Reads all again and applies what is new. */
  refresh(): Promise<void> {
    return this.#inTurn(() => this.#read())
  }

  /** One at a time, in order. */
  #inTurn(read: () => Promise<void>): Promise<void> {
    this.#reading = this.#reading.then(read).catch((error) => {
      this.#options.log.debug({ error: String(error) }, 'what the fleet shares could not be read')
    })
    return this.#reading
  }

  async #read(): Promise<void> {
    const { client } = this.#options
    const all = new Map(Object.entries(await inTime(client.hgetall(this.#key))))
    if (all.has('rules')) this.#learn('rules', all.get('rules')) // what else is said may be of limits that only they have
    for (const [field, text] of all) this.#learn(field, text)
    for (const field of [...this.#known.keys()]) if (!all.has(field)) this.#learn(field, undefined)
    const ended = [...all].filter(([field, text]) => hasEnded(field, text)).map(([field]) => field)
    if (ended.length > 0) await inTime(client.hdel(this.#key, ...ended))
    await this.#write()
  }

  /** At one that is said to have changed: of blocks there may be a hundred thousand. */
  async #look(field: string): Promise<void> {
    this.#learn(field, (await inTime(this.#options.client.hget(this.#key, field))) ?? undefined)
  }

  #learn(field: string, text: string | undefined): void {
    if (this.#known.get(field) !== text && !this.#pending.has(field)) this.#apply(field, text)
  }

  /** In one turn: what happens here meanwhile would be taken for news of the others, and not told to them. */
  #apply(field: string, text: string | undefined): void {
    const before = this.#known.get(field)
    if (text === undefined) this.#known.delete(field)
    else this.#known.set(field, text)
    this.#applying = true
    try {
      this.#applyField(field, text === undefined ? undefined : JSON.parse(text), before)
    } catch (error) {
      this.#options.log.error({ field, error: String(error) }, 'a change of the fleet cannot be applied here')
      // What did not work may do so at the next look: a file that was away, say.
      if (before === undefined) this.#known.delete(field)
      else this.#known.set(field, before)
    } finally {
      this.#applying = false
    }
  }

  #applyField(field: string, value: unknown, before: string | undefined): void {
    const { service, apply } = this.#options
    const [kind, id = ''] = [field.split(':', 1)[0], field.slice(field.indexOf(':') + 1)]
    if (kind === 'rules') apply(value as StoredRules | undefined)
    else if (kind === 'mode' && value !== undefined) service.setMode(id, value as LimitMode)
    else if (kind === 'overload') service.setTuning((value as OverloadTuning | undefined) ?? {})
    else if (kind === 'override') {
      if (value === undefined) service.liftOverride(id)
      else if (isNew(value as KeptOverride)) service.knowOverride(value as KeptOverride)
    } else if (kind === 'block' && before !== undefined && value === undefined) service.forgetBlock(id)
    // The block itself is in the store, which all share: only the list is told.
    else if (kind === 'block' && isNew(value as KeptBlock)) service.knowBlock(value as KeptBlock)
  }

  #tell(event: ServiceEvent): void {
    if (this.#applying) return
    const change = changeOf(event)
    if (change !== undefined) this.#keep(change)
    if (givesBack(event)) this.#sent(event.type, this.#options.client.publish(this.#key, GIVEN_BACK))
  }

  #sent(what: string, sent: Promise<unknown>): void {
    sent.catch((error) => {
      this.#options.log.error({ what, error: String(error) }, 'a change has not reached the other instances yet')
    })
  }

  /** Between reads, so that none sees what was before. */
  #keep(change: Change): void {
    const { field, text } = change
    const isFirst = this.#pending.size === 0
    this.#pending.set(field, change)
    if (text === undefined) this.#known.delete(field)
    else this.#known.set(field, text)
    if (!isFirst) return
    const written = this.#reading.then(() => this.#write())
    this.#sent(field, written)
    this.#reading = written.catch(() => {})
  }

  /** In order, up to the first that fails: the next look goes on there. */
  async #write(): Promise<void> {
    const { client } = this.#options
    for (let change = firstOf(this.#pending); change !== undefined; change = firstOf(this.#pending)) {
      const { field, text } = change
      await inTime(text === undefined ? client.hdel(this.#key, field) : client.hset(this.#key, field, text))
      await inTime(client.publish(this.#key, field))
      if (this.#pending.get(field) === change) this.#pending.delete(field)
    }
  }

  close(): void {
    clearInterval(this.#timer)
    this.#unwatch()
    this.#subscriber.disconnect()
  }
}

function firstOf(pending: ReadonlyMap<string, Change>): Change | undefined {
  const [first] = pending.values()
  return first
}

/** It subscribes whenever it is ready. By itself the client would do so too, and leave to nobody what fails then, which ends the process. */
function subscriberOf(client: Redis | Cluster): Redis | Cluster {
  return client.isCluster ? (client as Cluster).duplicate() : (client as Redis).duplicate({ autoResubscribe: false })
}

/** A client waits for a Redis that stopped as long as that stays so. */
async function inTime<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS)
  })
  try {
    return await Promise.race([answer, late])
  } catch (error) {
    throw storeFailed((error as Error).message, error)
  } finally {
    clearTimeout(timer)
  }
}

function storeFailed(why: string, cause?: unknown): HeadgateError {
  return new HeadgateError('HG_STORE_FAILED', `what the fleet shares could not be changed: ${why}`, undefined, {
    cause,
  })
}

/** Clocks differ: what ended a moment ago may hold elsewhere. */
const ENDED_MS = 60_000

/** Nobody lifts what ends by itself, so somebody has to clear it away. */
function hasEnded(field: string, text: string): boolean {
  if (!/^(?:override|block):/.test(field)) return false
  try {
    return JSON.parse(text).untilMs < Date.now() - ENDED_MS
  } catch {
    return false
  }
}

function isNew({ untilMs }: { readonly untilMs: number }): boolean {
  return untilMs > Date.now()
}

function changeOf(event: ServiceEvent): Change | undefined {
  if (event.type === 'mode') return { field: `mode:${event.limit}`, text: JSON.stringify(event.mode) }
  if (event.type === 'overload') return { field: 'overload', text: JSON.stringify(event.tuning) }
  if (event.type === 'override') return exceptionOf('override', event.override, event.lifted)
  if (event.type === 'block') return exceptionOf('block', event.block, event.lifted)
  return undefined
}

function exceptionOf(kind: string, exception: KeptOverride | KeptBlock, lifted: boolean): Change {
  return { field: `${kind}:${exception.id}`, text: lifted ? undefined : JSON.stringify(exception) }
}

/** Whether somebody may come by now who was refused for longer. */
function givesBack(event: ServiceEvent): boolean {
  return event.type === 'reset' || (event.type === 'block' && event.lifted)
}
