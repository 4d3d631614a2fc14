import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isFieldText } from './gateway/index.ts'

/** What Node has of a connection beside what its types say. */
interface Connection extends Socket {
  /** The answer that is being sent. */
  readonly _httpMessage?: ServerResponse | null
  readonly encrypted?: boolean
}

/** From here on Node may have left out fields, and one of them may say where the body ends. */
const MOST_FIELDS = 1_000

/**
 * Serves a request to speak another protocol as if it had not asked: it is read again without that wish, and so is what came behind
 * it. Node would do so itself where nobody listens for such requests, but it loses what came in one piece with them: what
 * comes after that would be read as a request, whatever it is.
 */
export function serveUnasked(server: Server, req: IncomingMessage, socket: Connection, rest: Buffer): void {
  const head = headOf(req)
  if (head === undefined) {
    socket.destroy()
    return
  }
  socket.unshift(Buffer.concat([Buffer.from(head, 'latin1'), rest])) // at once, as long as the client has not left
  afterAnswers(socket, () => {
    socket.setTimeout(server.timeout) // of an answer before this the time remains that a connection may rest
    server.emit(socket.encrypted ? 'secureConnection' : 'connection', socket)
  })
}

function headOf({ method, url, httpVersion, rawHeaders }: IncomingMessage): string | undefined {
  if (rawHeaders.length >= 2 * MOST_FIELDS) return undefined
  let text = `${method} ${url} HTTP/${httpVersion}\r\n`
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    const value = unasked(name.toLowerCase(), rawHeaders[i + 1] as string)
    if (value === undefined) continue
    if (!isFieldText(value)) return undefined
    text += `${name}: ${value}\r\n`
  }
  return `${text}\r\n`
}

/** What remains of a field. */
function unasked(lowerName: string, value: string): string | undefined {
  if (lowerName === 'upgrade' || lowerName === 'http2-settings') return undefined
  if (lowerName !== 'connection') return value
  const options = value.split(',').filter((option) => !/^\s*(?:upgrade|http2-settings)\s*$/i.test(option))
  return options.length === 0 ? undefined : options.join(',')
}

/** Node lets go of a connection with such a request, also for answers to those before it. Until they are sent, they hear of room here. */
function afterAnswers(socket: Connection, goOn: () => void): void {
  const onDrain = () => socket._httpMessage?.emit('drain')
  const next = () => {
    if (socket._httpMessage) {
      socket._httpMessage.once('close', next)
      return
    }
    socket.off('drain', onDrain)
    socket.off('error', ignore)
    if (socket.writable) goOn()
  }
  socket.on('drain', onDrain)
  socket.on('error', ignore)
  next()
}

function ignore(): void {
  // A close follows.
}
