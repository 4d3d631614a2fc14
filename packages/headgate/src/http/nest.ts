import type { ServerResponse } from 'node:http'
import {
  type ArgumentsHost,
  type CanActivate,
  Catch,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  type InjectionToken,
  type ModuleMetadata,
  type OptionalFactoryDependency,
  SetMetadata,
} from '@nestjs/common'
import type { Request } from 'express'
import type { Decision } from '../decision.ts'
import { HeadgateError } from '../errors.ts'
import { limitKeys } from '../named-limit.ts'
import { memory } from '../stores/memory.ts'
import { Core } from './core.ts'
import type { Answer } from './denial.ts'
import { knownAddress as knownToExpress } from './express.ts'
import { knownAddress as knownToFastify } from './fastify.ts'
import type { Reader, WarnOnce } from './identity.ts'
import { nodeReader, watchClose } from './node.ts'
import { extraKeys, type HttpLimit, type HttpOptions } from './options.ts'
import { CallerLeft } from './presence.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

/** The platform's request: Express's own, or Fastify's, which has Node's as `raw`. */
export type NestRequest = Request & { readonly raw?: Request; readonly routeOptions?: { readonly url?: string } }
/** Express and Fastify agree on these. */
interface NestResponse extends ServerResponse {
  readonly raw?: ServerResponse
  header(name: string, value: string): unknown
  status(code: number): unknown
  send(body: string): unknown
}
/** `onDenied` may throw an exception of its own. */
export type NestOptions = HttpOptions<NestRequest, [context: ExecutionContext]>

const OPTIONS = Symbol('headgate.options')
const LIMITS = 'headgate:limits'
const SKIP = 'headgate:skip'

type Limits = Record<string, HttpLimit<NestRequest>>
type Decorator = ClassDecorator & MethodDecorator

/**
 * Adds a limit to a controller or a route, decided as one with those of the module. Without a name it is called after the route
 * and counts by address; one with a name and no `by` is one counter for everybody.
 */
export function Limit(options: HttpLimit<NestRequest>): Decorator
export function Limit(name: string, options: HttpLimit<NestRequest>): Decorator
export function Limit(...args: [HttpLimit<NestRequest>] | [string, HttpLimit<NestRequest>]): Decorator {
  return (target: object, method?: string | symbol, descriptor?: PropertyDescriptor) => {
    const on = (descriptor?.value ?? target) as object
    const owner = typeof target === 'function' ? target : target.constructor
    const [name, options] = args.length === 2 ? args : [nameOf(owner.name, method), { by: 'ip' as const, ...args[0] }]
    const known: Limits = Reflect.getMetadata(LIMITS, on) ?? {}
    SetMetadata(LIMITS, { [name]: options, ...known })(target as never, method as never, descriptor as never)
  }
}

/** Leaves a controller or a route alone. */
export function SkipLimit(): Decorator {
  return SetMetadata(SKIP, true)
}

/** `SearchController.findAll` is `search-find-all`. */
function nameOf(owner: string, method: string | symbol | undefined): string {
  const words = `${owner.replace(/Controller$/, '')} ${String(method ?? '')}`.replace(/([a-z0-9])([A-Z])/g, '$1 $2')
  return words
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
}

/** A denied request, for exception filters of one's own. */
export class HeadgateDenied extends HttpException {
  readonly answer: Answer
  readonly decision: Decision<unknown>

  constructor(answer: Answer, decision: Decision<unknown>) {
    super(answer.type.endsWith('json') ? JSON.parse(answer.body) : answer.body, answer.status)
    this.answer = answer
    this.decision = decision
  }
}

/** Answers denied requests as they are: Nest itself would call any body plain JSON. */
export class HeadgateFilter implements ExceptionFilter<HeadgateDenied> {
  catch({ answer: { status, type, body } }: HeadgateDenied, host: ArgumentsHost): void {
    const response = argumentsOf(host).response
    response.header('Content-Type', type)
    response.status(status)
    response.send(body)
  }
}

/** Holds the module's limits; inject it to ask for a caller's state. */
export class Headgate {
  readonly #options: NestOptions
  readonly #core: Core<NestRequest>
  /** By controller, then by route: controllers that inherit a handler have it in common, and not their limits. */
  readonly #cores = new WeakMap<object, WeakMap<object, Core<NestRequest>>>()

  constructor(options: NestOptions) {
    // Gates of routes have limits of the module in common, and so have to count in one place.
    this.#options =
      options.gate !== undefined || ('store' in options && options.store !== undefined)
        ? options
        : ({ ...options, store: memory() } as NestOptions)
    this.#core = newCore(this.#options)
  }

  /** The body of `GET /rate_limit`: the caller's limits, without spending. */
  async status(request: NestRequest): Promise<object> {
    return JSON.parse((await this.#core.status(request)).body)
  }

  /** For one route: with the limits that it and its controller have of their own. */
  coreFor(controller: object, route: object): Core<NestRequest> {
    const cores = this.#coresOf(controller)
    const known = cores.get(route)
    if (known !== undefined) return known
    const own: Limits = { ...Reflect.getMetadata(LIMITS, controller), ...Reflect.getMetadata(LIMITS, route) }
    const core = Object.keys(own).length === 0 ? this.#core : newCore(withLimits(this.#options, own))
    cores.set(route, core)
    return core
  }

  #coresOf(controller: object): WeakMap<object, Core<NestRequest>> {
    const known = this.#cores.get(controller)
    if (known !== undefined) return known
    const cores = new WeakMap<object, Core<NestRequest>>()
    this.#cores.set(controller, cores)
    return cores
  }
}

function newCore(options: NestOptions): Core<NestRequest> {
  return new Core<NestRequest>(options as HttpOptions<NestRequest, never[]>, reader, true)
}

function withLimits(options: NestOptions, own: Limits): NestOptions {
  if (options.gate !== undefined) {
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      'the module has a "gate", and a route a @Limit, which cannot be decided with it: give the module "limits"',
    )
  }
  if (options.limits !== undefined) return { ...options, limits: { ...options.limits, ...own } }
  if (options.limit === undefined && options.atOnce === undefined && options.overload !== undefined)
    return { ...options, by: undefined, limits: own } as unknown as NestOptions
  const rest: Record<string, unknown> = { ...options }
  const only: Record<string, unknown> = { by: 'ip' }
  for (const key of limitKeys) {
    if (rest[key] === undefined || (extraKeys as readonly string[]).includes(key)) continue
    only[key] = rest[key]
    delete rest[key]
  }
  return { ...rest, limits: { default: only, ...own } } as NestOptions
}

export class HeadgateGuard implements CanActivate {
  readonly #headgate: Headgate

  constructor(headgate: Headgate) {
    this.#headgate = headgate
  }

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const [controller, route] = [context.getClass(), context.getHandler()]
    if (Reflect.getMetadata(SKIP, route) || Reflect.getMetadata(SKIP, controller)) return true
    const core = this.#headgate.coreFor(controller, route)
    const { request, response } = argumentsOf(context)
    try {
      const decision = core.take(request, response.raw ?? response)
      if (!(decision instanceof Promise)) return go(core, decision, context, request, response)
      return decision.then((each) => go(core, each, context, request, response)).catch((error) => fail(core, error))
    } catch (error) {
      return fail(core, error)
    }
  }
}

/** GraphQL hands its context on as the third argument. */
function argumentsOf(context: ArgumentsHost): { request: NestRequest; response: NestResponse } {
  if (context.getType<string>() !== 'graphql') {
    const http = context.switchToHttp()
    return { request: http.getRequest(), response: http.getResponse() }
  }
  const { req, res } = context.getArgByIndex(2)
  return { request: req, response: res ?? req.res }
}

function go(
  core: Core<NestRequest>,
  decision: Decision<unknown>,
  context: ExecutionContext,
  request: NestRequest,
  response: NestResponse,
): boolean | Promise<boolean> {
  const raw = response.raw ?? response
  const addedMs = core.jitterMs(decision)
  if (!raw.headersSent) core.writeHeaders(decision, (name, value) => response.header(name, value), addedMs)
  if (decision.ok) {
    return !core.watches || watchClose(core, decision, request, raw, response)
  }
  const refuse = (): never => {
    throw new HeadgateDenied(core.denial(decision, addedMs), decision)
  }
  const said = (core.onDenied as ((...args: unknown[]) => unknown) | undefined)?.(decision, context)
  return said instanceof Promise ? said.then(refuse) : refuse()
}

function fail(core: Core<NestRequest>, error: unknown): never {
  if (error instanceof CallerLeft) throw new HttpException(error.message, 499)
  const told = core.explain(error)
  const { status, message, code } = told as { status?: number; message: string; code?: string }
  if (status !== 400) throw error
  throw new HttpException({ statusCode: status, message, code }, status, { cause: error })
}

const reader: Reader<NestRequest> = {
  peer: (request) => nodeReader.peer(request.raw ?? request),
  known: (request: NestRequest, warnOnce: WarnOnce) =>
    request.raw === undefined ? knownToExpress(request, warnOnce) : knownToFastify(request as never, warnOnce),
  header: (request, name) => nodeReader.header(request.raw ?? request, name),
  mayBring: (request) => nodeReader.mayBring(request.raw ?? request),
  method: (request) => request.method,
  url: (request) => request.originalUrl,
  // Where that of Express is, who may have counted the request before.
  carrier: (request) => (request.raw === undefined ? request.rawHeaders : request),
  route: (request) =>
    request.routeOptions?.url ??
    (typeof request.route?.path === 'string' ? request.baseUrl + request.route.path : undefined),
}

Catch(HeadgateDenied)(HeadgateFilter)
Injectable()(Headgate)
Inject(OPTIONS)(Headgate, undefined, 0)
Injectable()(HeadgateGuard)
Inject(Headgate)(HeadgateGuard, undefined, 0)

/** `HeadgateModule.forRoot({ limit: '100/min' })`, and `HeadgateGuard` where it should stand: on all routes as `APP_GUARD`. */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest knows modules by their class
export class HeadgateModule {
  static forRoot(options: NestOptions): DynamicModule {
    return moduleOf({ provide: OPTIONS, useValue: options })
  }

  static forRootAsync({
    imports = [],
    inject = [],
    useFactory,
  }: {
    readonly imports?: NonNullable<ModuleMetadata['imports']>
    readonly inject?: (InjectionToken | OptionalFactoryDependency)[]
    // What is injected is the caller's to type.
    readonly useFactory: (...args: never[]) => NestOptions | Promise<NestOptions>
  }): DynamicModule {
    return { ...moduleOf({ provide: OPTIONS, inject, useFactory: useFactory as () => NestOptions }), imports }
  }
}

function moduleOf(options: NonNullable<DynamicModule['providers']>[number]): DynamicModule {
  return {
    module: HeadgateModule,
    global: true,
    // What @nestjs/core calls APP_FILTER.
    providers: [options, Headgate, HeadgateGuard, { provide: 'APP_FILTER', useClass: HeadgateFilter }],
    exports: [Headgate, HeadgateGuard],
  }
}
