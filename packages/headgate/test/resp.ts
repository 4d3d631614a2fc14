import { connect } from 'node:net'

export type Reply = string | number | null | Reply[]

/** Sends one command to the Redis at `url` on a connection of its own: enough for tests, and no client library. */
export async function call(url: string, command: readonly string[]): Promise<Reply> {
  const [reply] = await callAll(url, [command])
  if (reply instanceof Error) throw reply
  return reply as Reply
}

/** Several commands on one connection, for those that belong together (ASKING, MULTI). An error reply stands in its place. */
export async function callAll(url: string, commands: readonly (readonly string[])[]): Promise<(Reply | Error)[]> {
  const { hostname, port, username, password, pathname } = new URL(url)
  const before: string[][] = []
  if (password) before.push(['AUTH', username || 'default', decodeURIComponent(password)])
  if (pathname.length > 1) before.push(['SELECT', pathname.slice(1)])

  const socket = connect(Number(port || 6379), hostname)
  const all = [...before, ...commands]
  socket.write(all.map(encode).join(''))
  const replies: (Reply | Error)[] = []
  let bytes = Buffer.alloc(0)
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk])
    const { next, position } = reader(bytes)
    for (let reply = next(); reply !== undefined; reply = next()) replies.push(reply)
    bytes = bytes.subarray(position())
    if (replies.length === all.length) return withoutFailing(replies, before.length)
  }
  throw new Error(`the connection to ${url} ended before the reply`)
}

function withoutFailing(replies: (Reply | Error)[], before: number): (Reply | Error)[] {
  const refused = replies.slice(0, before).find((reply) => reply instanceof Error)
  if (refused) throw refused
  return replies.slice(before)
}

function encode(command: readonly string[]): string {
  return `*${command.length}\r\n${command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
}

/** `next` is undefined as long as a reply has not arrived to its end; `position` is where that one begins. */
function reader(bytes: Buffer) {
  let begin = 0
  let at = 0
  function take(length: number): string | undefined {
    if (length < 0 || at + length + 2 > bytes.length) return undefined
    const text = bytes.toString('utf8', at, at + length)
    at += length + 2
    return text
  }
  function value(): Reply | Error | undefined {
    const line = take(bytes.indexOf('\r\n', at) - at)
    if (line === undefined) return undefined
    const rest = line.slice(1)
    if (line[0] === '+') return rest
    if (line[0] === '-') return new Error(rest)
    if (line[0] === ':') return Number(rest)
    if (line[0] === '$') return rest === '-1' ? null : take(Number(rest))
    if (line[0] === '*') return rest === '-1' ? null : list(Number(rest))
    throw new Error(`not a reply of Redis: ${JSON.stringify(line)}`)
  }
  function list(length: number): Reply[] | Error | undefined {
    const items: Reply[] = []
    for (let i = 0; i < length; i++) {
      const item = value()
      if (item === undefined) return undefined
      items.push(item as Reply) // an error within a list (EXEC) stands in its place too
    }
    return items
  }
  return {
    next(): Reply | Error | undefined {
      const reply = value()
      if (reply !== undefined) begin = at
      return reply
    },
    position: () => begin,
  }
}
