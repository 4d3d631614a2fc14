import { connect } from 'node:net'

export type Reply = string | number | null | Reply[]

/** Sends one command to the Redis at `url` on a connection of its own: enough for tests, and no client library. */
export async function call(url: string, command: readonly string[]): Promise<Reply> {
  const { hostname, port, username, password, pathname } = new URL(url)
  const before: string[][] = []
  if (password) before.push(['AUTH', username || 'default', decodeURIComponent(password)])
  if (pathname.length > 1) before.push(['SELECT', pathname.slice(1)])

  const socket = connect(Number(port || 6379), hostname)
  socket.write([...before, command, ['QUIT']].map(encode).join('')) // QUIT: all has been said when the server hangs up
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk)

  const next = reader(Buffer.concat(chunks))
  for (const _ of before) next()
  return next()
}

function encode(command: readonly string[]): string {
  return `*${command.length}\r\n${command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
}

function reader(bytes: Buffer): () => Reply {
  let at = 0
  function take(length: number): string {
    const text = bytes.toString('utf8', at, at + length)
    at += length + 2
    return text
  }
  return function next(): Reply {
    const line = take(bytes.indexOf('\r\n', at) - at)
    const rest = line.slice(1)
    if (line[0] === '+') return rest
    if (line[0] === ':') return Number(rest)
    if (line[0] === '$') return rest === '-1' ? null : take(Number(rest))
    if (line[0] === '*') return rest === '-1' ? null : Array.from({ length: Number(rest) }, next)
    throw new Error(line[0] === '-' ? rest : `not a reply of Redis: ${JSON.stringify(line)}`)
  }
}
