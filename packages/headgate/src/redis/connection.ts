import { HeadgateError, show } from '../errors.ts'
import { PartsFailed } from '../stores/store.ts'

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
type Arguments = readonly (string | number)[]

interface IoClient {
  readonly isCluster?: boolean
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  call: Call
}

interface NodeRedisClient {
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  sendCommand: Call
}

interface GlideClient {
  customCommand(args: string[], options?: object): Promise<unknown>
}

/** Finds out which client it is by what it can do. */
export function connectionOf(client: unknown): Connection {
  if (typeof client === 'object' && client !== null) {
    if (typeof (client as Partial<Connection>).cluster === 'boolean') return client as Connection
    const can = (name: string) => typeof (client as Record<string, unknown>)[name] === 'function'
    if (can('evalsha')) return ofIo(client as IoClient)
    if (can('evalSha')) return ofNodeRedis(client as NodeRedisClient, 'nodeByAddress' in client, can('getMasterNode'))
    if (can('customCommand')) return ofGlide(client as GlideClient, can('invokeScriptWithRoute'))
  }
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `redis() got ${show(client)}: give a client of ioredis, node-redis, iovalkey or @valkey/valkey-glide`,
    client,
  )
}

/** ioredis and iovalkey, also with Sentinel and Cluster. */
function ofIo(client: IoClient): Connection {
  return {
    cluster: client.isCluster === true,
    evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
    eval: (script, keys, args) => client.eval(script, keys.length, ...keys, ...args),
    command: (name, ...args) => client.call(name, ...args),
  }
}

/** node-redis takes text only. */
function ofNodeRedis(client: NodeRedisClient, cluster: boolean, sentinel: boolean): Connection {
  const options = (keys: readonly string[], args: Arguments) => ({ keys: [...keys], arguments: args.map(String) })
  return {
    cluster,
    evalsha: (sha, keys, args) => client.evalSha(sha, options(keys, args)),
    eval: (script, keys, args) => client.eval(script, options(keys, args)),
    command: (...command) => {
      if (cluster) return client.sendCommand(undefined, true, command)
      return sentinel ? client.sendCommand(true, command) : client.sendCommand(command)
    },
  }
}

/** Valkey GLIDE sends commands where their keys are; `decoder: 1` asks for text, whatever the client was told. */
function ofGlide(client: GlideClient, cluster: boolean): Connection {
  const run = (name: string, text: string, keys: readonly string[], args: Arguments) =>
    client.customCommand([name, text, String(keys.length), ...keys, ...args.map(String)], { decoder: 1 })
  return {
    cluster,
    evalsha: (sha, keys, args) => run('EVALSHA', sha, keys, args),
    eval: (script, keys, args) => run('EVAL', script, keys, args),
    command: (...command) => client.customCommand(command, { decoder: 1 }),
  }
}

/** GLIDE has words of its own for what Redis says. */
const glideWords: Readonly<Record<string, string>> = {
  NoScriptError: 'NOSCRIPT',
  TryAgain: 'TRYAGAIN',
  ClusterDown: 'CLUSTERDOWN',
  CrossSlot: 'CROSSSLOT',
  ReadOnly: 'READONLY',
  BusyLoadingError: 'LOADING',
  MasterDown: 'MASTERDOWN',
  PermissionDenied: 'NOPERM',
  Moved: 'MOVED',
  Ask: 'ASK',
  ResponseError: 'ERR',
}

/** The word that an error of Redis starts with, such as READONLY; undefined if it is not from there. */
export function wordOf(reason: unknown): string | undefined {
  const message = reason instanceof Error ? reason.message : ''
  const glide = /^An error was signalled by the server: - ?(\w+):/.exec(message)?.[1]
  if (glide !== undefined) return glideWords[glide] ?? glide
  return /^([A-Z]{3,})\b/.exec(message)?.[1]
}

export function isError(reason: unknown, word: string): boolean {
  return wordOf(reason) === word
}

/** Why a call failed, in a word to count by; undefined if the server could not be reached. */
export function kindOf(reason: unknown): string | undefined {
  if (reason instanceof PartsFailed) return kindOf(reason.cause)
  if (reason instanceof Late) return 'timeout'
  const { name, message } = reason instanceof Error ? reason : { name: '', message: '' }
  // A cluster of ioredis tells what it heard last when it gives up.
  const last = /Last error: ReplyError: ([A-Z]{3,})\b/.exec(message)?.[1]
  return wordOf(reason) ?? last ?? (/timeout|timed out/i.test(`${name} ${message}`) ? 'timeout' : undefined)
}

/** An answer that nobody waits for any more. */
export class Late extends Error {}
