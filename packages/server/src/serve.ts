import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Store } from 'headgate'
import { createAdmin, type RulesChange, RulesConflict } from './admin/index.ts'
import { type Loaded, loadRules, parseRules } from './config/load.ts'
import { formatProblem, RulesError } from './config/problem.ts'
import type { Rules } from './config/schema.ts'
import { type DataServer, dataServer, upstreamsOf } from './data-server.ts'
import { Fleet } from './fleet/fleet.ts'
import { drain, httpServer, listen } from './http-server.ts'
import { type Log, noLog } from './log.ts'
import { Service } from './service.ts'
import { type OpenStore, openStore } from './store.ts'
import { Telemetry } from './telemetry/index.ts'
import { watchFiles } from './watch.ts'

export interface ServeOptions {
  /** The rules file; absent: `text`, or no limits at all. */
  readonly file?: string
  readonly text?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly log?: Log
  /** Where the admin's changes are written, a line of JSON each. */
  readonly audit?: { write(line: string): unknown }
}

export interface Running {
  readonly service: Service
  readonly port: number
  readonly adminPort: number
  /** May do everything on the admin port. */
  readonly adminToken: string
  /** Reads the rules again. What was wrong with them, if anything: then the last good ones hold. */
  reload(origin?: string): readonly string[]
  /** Takes no more requests, waits for those under way, gives everything back. */
  stop(): Promise<void>
}

/** Starts the service: rules, store, gateway, APIs, admin port. */
export async function serve(options: ServeOptions): Promise<Running> {
  const { env = {}, log = noLog } = options
  const loaded = read(options)
  for (const warning of loaded.warnings) log.warn({ code: warning.code }, formatProblem(warning))
  const opened = await openStore(loaded.rules.store, (fault) => log.warn({}, fault.message))
  const instance = await instanceOf(options, loaded, opened)
  try {
    await instance.start(env)
  } catch (error) {
    await instance.stop()
    throw error
  }
  return instance
}

/** An open store would keep a process alive that could not start, as with a certificate that cannot be read. */
async function instanceOf(options: ServeOptions, loaded: Loaded, opened: OpenStore): Promise<Instance> {
  try {
    return new Instance(options, loaded, opened)
  } catch (error) {
    await opened.close()
    throw error
  }
}

function read({ file, text = 'limits: {}', env = {} }: ServeOptions): Loaded {
  return file === undefined ? parseRules(text, 'rules', env) : loadRules(file, env)
}

class Instance implements Running {
  readonly service: Service
  port = 0
  adminPort = 0
  readonly adminToken: string
  readonly #options: ServeOptions
  readonly #log: Log
  readonly #telemetry = new Telemetry()
  readonly #opened: OpenStore
  readonly #fleet: Fleet | undefined
  readonly #data: DataServer
  readonly #closing: (() => unknown)[] = []
  #state: 'starting' | 'ready' | 'draining' = 'starting'
  /** Of rules that were put, in place of the file. */
  #text: string | undefined
  #stopped: Promise<void> | undefined

  constructor(options: ServeOptions, { rules, files, folders }: Loaded, opened: OpenStore) {
    const { env = {}, log = noLog } = options
    this.#options = options
    this.#log = log
    this.#opened = opened
    this.adminToken = env.HEADGATE_ADMIN_TOKEN || newToken()
    this.service = new Service(rules, this.#storeOf(opened))
    this.#closing.push(
      this.#telemetry.attach(this.service),
      this.service.watch({ onEvent: (event) => this.#note(event) }),
    )
    this.#data = dataServer({
      service: this.service,
      telemetry: this.#telemetry,
      token: env.HEADGATE_TOKEN || undefined,
      secret: secretOf(env),
    })
    this.#closing.push(watchFiles(files, folders, () => this.#text ?? this.reload('file')))
    // Last, as it connects: nothing after it can fail.
    this.#fleet = opened.client && this.#fleetOf(opened.client, rules)
  }

  /** A store that answers at once is left as it is: that it does is worth more than knowing how fast. */
  #storeOf({ store, client }: OpenStore): Store {
    return client === undefined ? store : this.#telemetry.wrapStore(store, 'redis')
  }

  #fleetOf(client: NonNullable<OpenStore['client']>, rules: Rules): Fleet {
    const prefix = 'redis' in rules.store ? rules.store.redis.prefix : 'hg'
    const fleet = new Fleet({
      service: this.service,
      client,
      prefix,
      log: this.#log,
      apply: (stored) => {
        if (stored === undefined) this.#fromFile()
        else this.#apply(parseRules(stored.text, 'rules', this.#options.env), stored.origin, stored.generation)
        this.#text = stored?.text
      },
    })
    this.#closing.push(() => fleet.close())
    return fleet
  }

  async start(env: NonNullable<ServeOptions['env']>): Promise<void> {
    const { server } = this.service.rules.rules
    await this.#fleet?.refresh()
    const admin = createAdmin(this.service, {
      telemetry: this.#telemetry,
      tokens: { write: this.adminToken, ...(env.HEADGATE_ADMIN_READ_TOKEN && { read: env.HEADGATE_ADMIN_READ_TOKEN }) },
      ...(this.#options.audit && { audit: this.#options.audit }),
      ready: () => ({ state: this.#state }),
      reload: async () => this.#fromFile(),
      putRules: (change) => this.#put(change),
      rulesText: () => this.#text ?? this.#fileText(),
      environment: env,
      onError: (error) => this.#log.error({ error: String(error) }, 'the admin port failed'),
    })
    const adminServer = httpServer(server, server.adminTls, (req, res) => admin.handle(req, res))
    this.#closing.push(async () => {
      admin.close()
      await drain(adminServer, 0)
    })
    this.adminPort = await listen(adminServer, server.adminPort, server.adminHost)
    this.port = await listen(this.#data.server, server.port, server.host)
    this.#state = 'ready'
    const limits = this.service.rules.limitNames.length
    this.#log.info({ port: this.port, adminPort: this.adminPort, limits }, 'serving')
  }

  #fileText(): string | undefined {
    const { file, text } = this.#options
    return file === undefined ? text : readFileSync(file, 'utf8')
  }

  #fromFile(origin = 'file'): void {
    this.#apply(read(this.#options), origin)
    this.#text = undefined
  }

  /** What can change while the service runs: ports and the store stay as they were at its start. */
  #apply({ rules, warnings }: Loaded, origin: string, generation?: number): void {
    for (const warning of warnings) this.#log.warn({ code: warning.code }, formatProblem(warning))
    this.#data.proxy?.update(upstreamsOf(rules))
    this.service.replace(rules, origin, generation)
  }

  async #put({ rules, text, origin, expected }: RulesChange): Promise<void> {
    if (this.#fleet === undefined) {
      const { generation } = this.service.rules
      if (expected !== undefined && expected !== generation) throw new RulesConflict(`Generation ${generation} holds.`)
      this.#data.proxy?.update(upstreamsOf(rules))
      this.service.replace(rules, origin)
      this.#text = text
      return
    }
    const { put, generation } = await this.#fleet.putRules(text, origin, expected)
    if (!put) throw new RulesConflict(`Generation ${generation} holds.`)
  }

  reload(origin = 'reload'): readonly string[] {
    try {
      this.#fromFile(origin)
      return []
    } catch (error) {
      const reasons = error instanceof RulesError ? error.problems.map(formatProblem) : [String(error)]
      this.service.tell({ type: 'rules-refused', origin, reason: reasons.join('\n') })
      return reasons
    }
  }

  #note(event: Parameters<NonNullable<Parameters<Service['watch']>[0]['onEvent']>>[0]): void {
    if (event.type === 'rules') this.#log.info(event, 'rules replaced')
    else if (event.type === 'rules-refused') this.#log.error(event, 'rules refused, the last good ones hold')
    else if (event.type === 'store') this.#log.warn(event, `the store is ${event.state}`)
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #end(): Promise<void> {
    this.#state = 'draining'
    await drain(this.#data.server, this.service.rules.rules.server.drainMs)
    await this.#data.proxy?.close({ graceMs: 0 })
    for (const close of this.#closing.splice(0)) await close()
    await this.#opened.close()
    this.#log.info({}, 'stopped')
  }
}

function newToken(): string {
  return randomBytes(24).toString('base64url')
}

/** Instances that are to understand each other's reservations are given one secret, or one token. */
function secretOf({ HEADGATE_SECRET, HEADGATE_TOKEN }: NonNullable<ServeOptions['env']>): Buffer {
  const secret = HEADGATE_SECRET || HEADGATE_TOKEN
  return secret ? createHash('sha256').update(`headgate reservations ${secret}`).digest() : randomBytes(32)
}
