import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import type { Store } from 'headgate'
import type { LeaseOptions } from 'headgate/remote'
import { createAdmin, dashboard, type RulesChange, RulesConflict } from './admin/index.ts'
import { authority, ipcStore } from './cluster/index.ts'
import { followPrimary, type Member, tellWorker } from './cluster/link.ts'
import { Workers, workerCount } from './cluster/workers.ts'
import { holdFindings } from './config/hold-check.ts'
import { type Loaded, loadRules, parseRules } from './config/load.ts'
import { formatProblem, problemAt, RulesError } from './config/problem.ts'
import type { Rules } from './config/schema.ts'
import type { ServerRules } from './config/server-schema.ts'
import { holdsOf } from './config/store-schema.ts'
import { type DataServer, dataServer, upstreamsOf } from './data-server.ts'
import { type EnvoyServer, envoyServer, grpcPortOf } from './envoy-server.ts'
import { Fleet } from './fleet/fleet.ts'
import { drain, httpServer, listen } from './http-server.ts'
import { type Log, noLog } from './log.ts'
import { Service } from './service.ts'
import { type OpenStore, openStore } from './store.ts'
import { DenialLog, IgnoredCostLog, Spans, Telemetry } from './telemetry/index.ts'
import { Watch } from './watch.ts'

export interface ServeOptions {
  /** The rules file; absent: `text`, or no limits at all. */
  readonly file?: string
  readonly text?: string
  /** Configurations of envoyproxy/ratelimit, or folders of them, beside those that the rules name. */
  readonly envoy?: readonly string[]
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly log?: Log
  /** Where the admin's changes are written, a line of JSON each. */
  readonly audit?: { write(line: string): unknown }
  /** Of several processes: the one that keeps counts and has the admin port, or one that serves. */
  /** @internal Rules to start with, though the file says others by now. */
  readonly first?: string
  readonly role?: 'primary' | 'worker'
}

export interface Running {
  readonly service: Service
  readonly port: number
  readonly adminPort: number
  /** Of the Envoy rate limit service; 0: there is none. */
  readonly grpcPort: number
  /** May do everything on the admin port. */
  readonly adminToken: string
  /** Reads the rules again. What was wrong with them, if anything: then the last good ones hold. */
  reload(origin?: string): readonly string[]
  /** Takes no more requests, waits for those under way, gives everything back. */
  stop(): Promise<void>
}

/** Starts the service: rules, store, gateway, APIs, admin port; in several processes if the rules say so. */
export async function serve(given: ServeOptions): Promise<Running> {
  const { env = {}, log = noLog } = given
  // While it warms up V8 sees much of what a request needs outlive a collection, and may make such objects among the old ones ever after. There
  // they keep young garbage alive: in every second process collections took 9 ms instead of 1.
  setFlagsFromString('--no-allocation-site-pretenuring')
  const loaded = given.first === undefined ? read(given) : parseRules(given.first, 'rules', env)
  const isMany = given.role === undefined && workerCount(loaded.rules.server.workers) > 1
  const options: ServeOptions = isMany ? { ...given, role: 'primary' } : given
  if (options.role !== 'worker')
    for (const warning of loaded.warnings) log.warn({ code: warning.code }, formatProblem(warning))
  const opened = await storeFor(options, loaded.rules)
  const instance = await instanceOf(options, loaded, opened)
  try {
    await instance.start(env)
  } catch (error) {
    await instance.stop()
    throw error
  }
  return instance
}

/** Workers of a service that counts in memory ask their primary. */
async function storeFor({ role, log = noLog }: ServeOptions, rules: Rules): Promise<OpenStore> {
  if (role !== 'worker' || !('memory' in rules.store))
    return openStore(rules.store, (fault) => log.warn({}, fault.message))
  const { lease } = rules.store.memory
  const store: Store = lease ? ipcStore({ lease: lease as true | LeaseOptions }) : ipcStore()
  return { store, close: async () => store.close?.() }
}

/** An open store would keep a process alive that could not start, as with a certificate that cannot be read. */
async function instanceOf(options: ServeOptions, loaded: Loaded, opened: OpenStore): Promise<Instance> {
  try {
    return new Instance(options, loaded, opened, await Spans.find())
  } catch (error) {
    await opened.close()
    throw error
  }
}

function read({ file, text = 'limits: {}', env = {}, envoy }: ServeOptions): Loaded {
  return file === undefined ? parseRules(text, 'rules', env, { envoy }) : loadRules(file, env, { envoy })
}

const SKIPPED = 'an override does not fit its limit any more and is skipped'

/** What holds after a restart only. */
const fixedParts = ['store', 'server'] as const

class Instance implements Running, Member {
  readonly service: Service
  readonly telemetry = new Telemetry()
  port = 0
  adminPort = 0
  grpcPort = 0
  readonly adminToken: string
  readonly #options: ServeOptions
  /** Whose ports, store and gateway are open. */
  readonly #started: Rules
  readonly #log: Log
  readonly #opened: OpenStore
  readonly #fleet: Fleet | undefined
  /** A primary serves nobody. */
  readonly #data: DataServer | undefined
  readonly #envoy: EnvoyServer | undefined
  /** That Envoy is to ask at, if any. */
  readonly #grpcPort: number | undefined
  readonly #closing: (() => unknown)[] = []
  #state: 'starting' | 'ready' | 'draining' = 'starting'
  /** Of rules that were put, in place of the file. */
  #text: string | undefined
  /** All of the rules that hold, but for what cannot change, which is as it was at the start. */
  #whole: string
  #stopped: Promise<void> | undefined
  #workers: Workers | undefined
  readonly #files = new Watch(() => this.#text ?? this.reload('file'))

  constructor(options: ServeOptions, loaded: Loaded, opened: OpenStore, spans: Spans | undefined) {
    const { env = {}, log = noLog } = options
    const { rules, files, folders, where } = loaded
    this.#options = options
    this.#started = rules
    this.#whole = loaded.whole()
    this.#checkHolds(rules, where)
    this.#log = log
    this.#opened = opened
    this.adminToken = env.HEADGATE_ADMIN_TOKEN || newToken()
    this.service = new Service(rules, this.#storeOf(opened))
    this.#closing.push(
      this.telemetry.attach(this.service),
      this.service.watch({ onEvent: (event) => this.#note(event) }),
      this.service.watch(new DenialLog(log)),
      this.service.watch(new IgnoredCostLog(log)),
      this.service.watch({ onOverrideSkipped: ({ id, limit }, reason) => log.warn({ id, limit, reason }, SKIPPED) }),
    )
    const { service, telemetry } = this
    const token = env.HEADGATE_TOKEN || undefined
    this.#grpcPort = grpcPortOf(loaded)
    if (options.role !== 'primary') {
      this.#data = dataServer({ service, telemetry, token, secret: secretOf(env), spans, log })
      if (this.#grpcPort !== undefined) this.#envoy = envoyServer({ service, telemetry, token, log })
    }
    this.#watch(files, folders)
    this.#closing.push(() => this.#files.close())
    // Last, as it connects: nothing after it can fail.
    this.#fleet = opened.client && this.#fleetOf(opened.client, rules)
  }

  /** Workers are told by their primary. */
  #watch(files: readonly string[], folders: readonly string[]): void {
    if (this.#options.role !== 'worker') this.#files.these(files, folders)
  }

  get text(): string | undefined {
    return this.#text
  }

  /** A store that answers at once is left as it is: that it does is worth more than knowing how fast. */
  #storeOf({ store, client }: OpenStore): Store {
    if (client !== undefined) return this.telemetry.wrapStore(store, 'redis')
    this.telemetry.knowStore(store)
    return store
  }

  #fleetOf(client: NonNullable<OpenStore['client']>, rules: Rules): Fleet {
    const prefix = 'redis' in rules.store ? rules.store.redis.prefix : 'hg'
    const fleet = new Fleet({
      service: this.service,
      client,
      prefix,
      log: this.#log,
      tells: this.#options.role !== 'worker',
      apply: (stored) => {
        if (stored === undefined) this.#use(read(this.#options), 'file')
        else this.use(stored.text, stored.origin, stored.generation)
      },
    })
    this.#closing.push(() => fleet.close())
    return fleet
  }

  async start(env: NonNullable<ServeOptions['env']>): Promise<void> {
    const { role } = this.#options
    const { rules } = this.service.rules
    await this.#fleet?.refresh()
    if (role === 'worker') await followPrimary(this)
    else await this.#openAdmin(rules.server, env)
    if (role === 'primary') await this.#startWorkers(rules)
    else await this.#listen(rules)
    this.#state = 'ready'
    this.#envoy?.health.set(true)
    const limits = this.service.rules.limitNames.length
    const { port, adminPort, grpcPort } = this
    if (role !== 'worker') this.#log.info({ port, adminPort, ...(grpcPort > 0 && { grpcPort }), limits }, 'serving')
  }

  /** This order tells a primary which port is which. */
  async #listen(rules: Rules): Promise<void> {
    const { port, host } = rules.server
    if (this.#data !== undefined) this.port = await listen(this.#data.server, port, host)
    if (this.#envoy !== undefined) this.grpcPort = await this.#envoy.listen(this.#grpcPort ?? 0, host)
  }

  /** A primary is as ready as its workers. */
  get #readiness(): 'starting' | 'ready' | 'draining' {
    return this.#state === 'ready' && this.#workers?.isServing === false ? 'starting' : this.#state
  }

  async #openAdmin(server: ServerRules, env: NonNullable<ServeOptions['env']>): Promise<void> {
    const admin = createAdmin(this.service, {
      telemetry: this.telemetry,
      tokens: { write: this.adminToken, ...(env.HEADGATE_ADMIN_READ_TOKEN && { read: env.HEADGATE_ADMIN_READ_TOKEN }) },
      ...(this.#options.audit && { audit: this.#options.audit }),
      ready: () => ({ state: this.#readiness }),
      reload: () => this.#backToFile(),
      putRules: (change) => this.#put(change),
      rulesText: () => this.#text ?? this.#fileText(),
      environment: env,
      otherwise: dashboard(),
      onError: (error) => this.#log.error({ error: String(error) }, 'the admin port failed'),
    })
    const adminServer = httpServer(server, server.adminTls, (req, res) => admin.handle(req, res), { log: this.#log })
    this.#closing.push(async () => {
      admin.close()
      await drain(adminServer, 0)
    })
    this.adminPort = await listen(adminServer, server.adminPort, server.adminHost)
  }

  /** Ports are those of all workers: the first to listen says which. */
  async #startWorkers(rules: Rules): Promise<void> {
    const { file, env = {}, envoy } = this.#options
    const secret = env.HEADGATE_SECRET || env.HEADGATE_TOKEN || newToken()
    const workers = new Workers({
      count: workerCount(rules.server.workers),
      log: this.#log,
      args: [JSON.stringify({ file, text: this.#options.text, envoy })],
      startText: () => this.#startText(),
      env: { ...env, HEADGATE_SECRET: secret },
      onStart: (worker) => {
        if (this.#opened.client === undefined) authority(this.#opened.store, worker)
        tellWorker(worker, this)
      },
    })
    this.#workers = workers
    this.#closing.unshift(() => workers.stop(rules.server.drainMs))
    const [port = 0, grpcPort = 0] = await workers.listening(this.#grpcPort === undefined ? 1 : 2)
    Object.assign(this, { port, grpcPort })
  }

  /** What a worker starts with: the same that its siblings did, whatever has become of the file since. */
  #startText(): string | undefined {
    try {
      const { rules } = read(this.#options)
      const isSame = fixedParts.every((part) => isDeepStrictEqual(rules[part], this.#started[part]))
      if (isSame && !this.#isOtherGateway(rules)) return undefined
    } catch {
      // The last good rules hold.
    }
    return this.#whole
  }

  #fileText(): string | undefined {
    const { file, text } = this.#options
    return file === undefined ? text : readFileSync(file, 'utf8')
  }

  /** In all of the fleet, where rules were put there. */
  async #backToFile(): Promise<void> {
    const loaded = read(this.#options) // what is wrong with it is told before anything changes
    if (this.#fleet === undefined || this.#text === undefined) this.#use(loaded, 'reload')
    else await this.#fleet.dropRules()
  }

  #use(loaded: Loaded, origin: string): void {
    this.#withText(undefined, () => this.#apply(loaded, origin))
    this.#watch(loaded.files, loaded.folders) // it may include others now
  }

  /** What can change while the service runs: ports and the store stay as they were at its start. */
  #apply(loaded: Loaded, origin: string, generation?: number): void {
    const { rules, warnings, where } = loaded
    this.#checkHolds(rules, where)
    for (const warning of warnings) this.#log.warn({ code: warning.code }, formatProblem(warning))
    const started = this.#started
    const kept = fixedParts.filter((part) => !isDeepStrictEqual(rules[part], started[part]))
    const gateway = this.#isOtherGateway(rules) ? ['upstream'] : []
    const envoy = (grpcPortOf(loaded) === undefined) !== (this.#grpcPort === undefined) ? ['envoy'] : []
    const parts = [...kept, ...gateway, ...envoy]
    if (parts.length > 0) this.#log.warn({ parts }, 'these parts of the rules hold after a restart only')
    this.service.replace(rules, origin, generation)
    this.#keepWhole(loaded)
    if (!this.#isOtherGateway(rules)) this.#data?.proxy?.update(upstreamsOf(rules))
  }

  /** Whether there is a gateway at all is as it was at the start: one whose rules say nothing of it goes on. */
  #isOtherGateway({ upstream }: Rules): boolean {
    return (upstream.length === 0) !== (this.#started.upstream.length === 0)
  }

  /** Workers are told it with the change, so it comes first; where that fails, it does not hold either. */
  #withText(text: string | undefined, change: () => void): void {
    const before = this.#text
    this.#text = text
    try {
      change()
    } catch (error) {
      this.#text = before
      throw error
    }
  }

  #keepWhole(loaded: Loaded): void {
    const { store, server, upstream } = JSON.parse(this.#whole) as Readonly<Record<string, unknown>>
    const kept = { store, server, ...(this.#isOtherGateway(loaded.rules) && { upstream }) }
    this.#whole = JSON.stringify({ ...(JSON.parse(loaded.whole()) as object), ...kept })
  }

  /** The store stays as it is: limits cannot be held in ways that it was not opened with. */
  #checkHolds({ limits }: Rules, where: Loaded['where'] = () => ({ file: 'rules', line: 1, column: 1 })): void {
    const findings = holdFindings(limits, holdsOf(this.#started.store))
    const problems = findings.map((finding) => problemAt(where(finding.path), finding))
    if (problems.length > 0) throw new RulesError(problems)
  }

  use(text: string | undefined, origin: string, generation: number): void {
    const loaded = text === undefined ? read(this.#options) : this.#parse(text)
    this.#withText(text, () => this.#apply(loaded, origin, generation))
  }

  /** Rules that were put, with what the service was started with beside them. */
  #parse(text: string): Loaded {
    const { env = {}, envoy } = this.#options
    return parseRules(text, 'rules', env, { envoy })
  }

  async #put({ text, origin, expected }: RulesChange): Promise<void> {
    const loaded = this.#parse(text)
    const { rules } = loaded
    this.#checkHolds(rules)
    if (this.#fleet === undefined) {
      const { generation } = this.service.rules
      if (expected !== undefined && expected !== generation) throw new RulesConflict(`Generation ${generation} holds.`)
      this.#withText(text, () => this.#apply(loaded, origin))
      return
    }
    const { put, generation } = await this.#fleet.putRules(text, origin, expected)
    if (!put) throw new RulesConflict(`Generation ${generation} holds.`)
  }

  reload(origin = 'reload'): readonly string[] {
    try {
      const loaded = read(this.#options)
      // Rules that were put hold in all of the fleet, so all of it goes back, and this instance with it.
      if (this.#fleet === undefined || this.#text === undefined) this.#use(loaded, origin)
      else this.#fleet.dropRules().catch((error) => this.#refuse(error, origin))
      return []
    } catch (error) {
      return this.#refuse(error, origin)
    }
  }

  #refuse(error: unknown, origin: string): readonly string[] {
    const reasons = error instanceof RulesError ? error.problems.map(formatProblem) : [String(error)]
    this.service.tell({ type: 'rules-refused', origin, reason: reasons.join('\n') })
    return reasons
  }

  #note(event: Parameters<NonNullable<Parameters<Service['watch']>[0]['onEvent']>>[0]): void {
    if (event.type === 'rules') this.#log.info(event, 'rules replaced')
    else if (event.type === 'rules-refused') this.#log.error(event, 'rules refused, the last good ones hold')
    else if (event.type === 'store') this.#log.warn(event, `the store is ${event.state}`)
    // A worker has said so itself.
    else if (event.type === 'breaker' && event.worker === undefined)
      this.#log.warn(event, `the breaker of ${event.url} is ${event.state}`)
    const { tuningGivesWay } = this.service
    if ((event.type === 'rules' || event.type === 'overload') && tuningGivesWay.length > 0)
      this.#log.warn({ why: tuningGivesWay }, 'what was tuned of overload protection gives way to the rules')
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #end(): Promise<void> {
    this.#state = 'draining'
    this.#envoy?.health.set(false)
    const { drainMs } = this.service.rules.rules.server
    await Promise.all([this.#data && drain(this.#data.server, drainMs), this.#envoy?.drain(drainMs)])
    await this.#data?.proxy?.close({ graceMs: 0 })
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
