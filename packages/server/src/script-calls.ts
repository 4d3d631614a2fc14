import { Command, type Redis } from 'ioredis'

type Arguments = readonly (string | number)[]

/** What the store asks of a client. */
interface Connection {
  readonly cluster: boolean
  evalsha(sha: string, keys: readonly string[], args: Arguments): Promise<unknown>
  eval(script: string, keys: readonly string[], args: Arguments): Promise<unknown>
  command(name: string, ...args: string[]): Promise<unknown>
}

/**
 * A client with less to do for a call of a script. ioredis looks at each argument four times, and most of them, which say what the limits are,
 * are those of the call before. Connecting, and who is owed which reply, stays its business.
 */
export function quickCalls(client: Redis): Connection {
  return {
    cluster: false,
    evalsha: (sha, keys, args) => client.sendCommand(new ScriptCall(sha, keys, args)) as Promise<unknown>,
    eval: (script, keys, args) => client.eval(script, keys.length, ...keys, ...args),
    command: (name, ...args) => client.call(name, ...args),
  }
}

class ScriptCall extends Command {
  readonly #text: string

  constructor(sha: string, keys: readonly string[], args: Arguments) {
    super('evalsha', NO_ARGUMENTS, { replyEncoding: 'utf8' })
    let text = `*${keys.length + args.length + 3}\r\n$7\r\nevalsha\r\n$${sha.length}\r\n${sha}\r\n${bulk(keys.length)}`
    for (const key of keys) text += bulk(key)
    for (const arg of args) text += comesAgain(arg) ? known(arg) : bulk(arg)
    this.#text = text
  }

  override toWritable(): string {
    return this.#text
  }
}

const NO_ARGUMENTS: never[] = []
const INSTANT_US = 1e14
const LONGEST = 64
const MOST = 1_000
/** Arguments as they are sent. */
const texts = new Map<string | number, string>()

function comesAgain(arg: string | number): boolean {
  return typeof arg === 'number' ? arg < INSTANT_US : arg.length <= LONGEST
}

function known(arg: string | number): string {
  const text = texts.get(arg)
  if (text !== undefined) return text
  const made = bulk(arg)
  if (texts.size >= MOST) texts.clear()
  texts.set(arg, made)
  return made
}

function bulk(arg: string | number): string {
  const text = String(arg)
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`
}
