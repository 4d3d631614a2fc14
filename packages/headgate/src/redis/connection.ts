import { HeadgateError, show } from '../errors.ts'

/** What the store asks of a client. Every method may reject with what the client or the server says. */
export interface Connection {
  /** Whether keys live on several nodes; then one call may only have keys of one slot. */
  readonly cluster: boolean
  evalsha(sha: string, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  eval(script: string, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  /** A command without keys, to any node. */
  command(name: string, ...args: string[]): Promise<unknown>
}

type Call = (...args: readonly unknown[]) => Promise<unknown>

/** ioredis and iovalkey; `isCluster` is theirs. */
interface IoClient {
  readonly isCluster?: boolean
  evalsha: Call
  eval: Call
  call: Call
  nodes?(role: string): { call: Call }[]
}

/** node-redis; a cluster has `masters`. */
interface NodeRedisClient {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  sendCommand: Call
  readonly masters?: unknown
}

/** Valkey GLIDE; a cluster client routes by itself. */
interface GlideClient {
  customCommand(args: string[], options?: unknown): Promise<unknown>
}

/** Finds out which client it is by what it can do. */
export function connectionOf(client: unknown): Connection {
  if (typeof client === 'object' && client !== null) {
    if ('evalsha' in client && 'call' in client) return ofIo(client as IoClient)
    if ('evalSha' in client && 'sendCommand' in client) return ofNodeRedis(client as NodeRedisClient)
    if ('customCommand' in client) return ofGlide(client as GlideClient)
  }
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `redis() got ${show(client)}: give a client of ioredis, node-redis, iovalkey or @valkey/valkey-glide`,
    client,
  )
}

function ofIo(client: IoClient): Connection {
  return {
    cluster: client.isCluster === true,
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (script, keys, args) => client.eval(script, keys.length, ...keys, ...args),
    command: (name, ...args) => client.call(name, ...args),
  }
}

function ofNodeRedis(client: NodeRedisClient): Connection {
  const cluster = 'masters' in client
  const options = (keys: readonly string[], args: readonly (string | number)[]) => {
    return { keys: [...keys], arguments: args.map(String) }
  }
  return {
    cluster,
    evalsha: (sha, keys, args) => client.evalSha(sha, options(keys, args)),
    eval: (script, keys, args) => client.eval(script, options(keys, args)),
    command: (name, ...args) =>
      cluster ? client.sendCommand(undefined, true, [name, ...args]) : client.sendCommand([name, ...args]),
  }
}

function ofGlide(client: GlideClient): Connection {
  const run = (name: string, text: string, keys: readonly string[], args: readonly (string | number)[]) =>
    client.customCommand([name, text, String(keys.length), ...keys, ...args.map(String)])
  return {
    cluster: client.constructor.name === 'GlideClusterClient',
    evalsha: (sha, keys, args) => run('EVALSHA', sha, keys, args),
    eval: (script, keys, args) => run('EVAL', script, keys, args),
    command: (name, ...args) => client.customCommand([name, ...args]),
  }
}
