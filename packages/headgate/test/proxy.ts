import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { freePort } from './redis-server.ts'

/** Which way a network fails: what clients send, what they are sent, or both. */
export type Way = 'commands' | 'replies'

/** Stands between a client and a server on the loopback interface, and is the network that fails. */
export interface TcpProxy {
  readonly port: number
  readonly url: string
  /** Connections that are open now, and all there have been. */
  readonly open: number
  readonly accepted: number
  /** Bytes handed on, by way. */
  readonly bytes: Readonly<Record<Way, number>>
  /** Ends all connections and refuses new ones. What was on its way is lost. */
  cut(): Promise<void>
  /** Connections stay and new ones are accepted, but bytes stay on their way until `heal`, or are lost by `cut`. */
  stall(way?: Way | 'both'): void
  /** Every byte takes so much longer each way, so a round trip takes twice that. */
  delay(ms: number): void
  /** As if nothing had been, but for connections that were cut: what stalled arrives now. */
  heal(): Promise<void>
  stop(): Promise<void>
}

/** What a network takes in before it lets the sender feel that nothing arrives. */
const maxHeldBytes = 1 << 20

export async function startProxy(target: { readonly port: number }): Promise<TcpProxy> {
  const weather = { commands: false, replies: false, delayMs: 0 }
  const bytes = { commands: 0, replies: 0 }
  const links = new Set<Link>()
  let accepted = 0
  const server = createServer({ allowHalfOpen: true }, (client) => {
    accepted++
    const link = new Link(
      client,
      connect({ port: target.port, host: '127.0.0.1', allowHalfOpen: true }),
      weather,
      bytes,
    )
    links.add(link)
    link.onEnd = () => links.delete(link)
  })
  const port = await freePort()

  async function listen(): Promise<void> {
    if (server.listening) return
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  async function cut(): Promise<void> {
    for (const link of links) link.destroy()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }

  await listen()
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get open() {
      return links.size
    },
    get accepted() {
      return accepted
    },
    bytes,
    cut,
    stall(way = 'both') {
      if (way !== 'replies') weather.commands = true
      if (way !== 'commands') weather.replies = true
    },
    delay(ms) {
      weather.delayMs = ms
    },
    async heal() {
      Object.assign(weather, { commands: false, replies: false, delayMs: 0 })
      for (const link of links) link.heal()
      await listen()
    },
    stop: cut,
  }
}

type Weather = Readonly<Record<Way, boolean>> & { readonly delayMs: number }

/** One connection of a client and the one behind it. */
class Link {
  onEnd = () => {}
  readonly #sockets: readonly [Socket, Socket]
  readonly #lanes: readonly [Lane, Lane]

  constructor(client: Socket, server: Socket, weather: Weather, bytes: Record<Way, number>) {
    this.#sockets = [client, server]
    this.#lanes = [
      new Lane('commands', client, server, weather, bytes),
      new Lane('replies', server, client, weather, bytes),
    ]
    for (const socket of this.#sockets) {
      socket.setNoDelay(true)
      socket.on('error', () => this.destroy())
      // Both have said all, or one was destroyed. An orderly end travels through the lanes like everything else.
      socket.on('close', () => this.destroy())
    }
  }

  heal(): void {
    for (const lane of this.#lanes) lane.heal()
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy()
    for (const lane of this.#lanes) lane.close()
    this.onEnd()
  }
}

/** One way of a connection. Null in the queue is the end of what the sender has to say. */
class Lane {
  #queue: { readonly chunk: Buffer | null; readonly dueMs: number }[] = []
  #heldBytes = 0
  #timer: NodeJS.Timeout | undefined
  readonly #way: Way
  readonly #from: Socket
  readonly #to: Socket
  readonly #weather: Weather
  readonly #bytes: Record<Way, number>

  constructor(way: Way, from: Socket, to: Socket, weather: Weather, bytes: Record<Way, number>) {
    this.#way = way
    this.#from = from
    this.#to = to
    this.#weather = weather
    this.#bytes = bytes
    from.on('data', (chunk) => this.#take(chunk))
    from.on('end', () => this.#take(null))
    to.on('drain', () => this.#pump())
  }

  heal(): void {
    this.#queue = this.#queue.map(({ chunk }) => ({ chunk, dueMs: 0 }))
    this.#pump()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#queue = []
  }

  #take(chunk: Buffer | null): void {
    this.#queue.push({ chunk, dueMs: performance.now() + this.#weather.delayMs })
    this.#heldBytes += chunk?.length ?? 0
    this.#pump()
  }

  #pump(): void {
    clearTimeout(this.#timer)
    while (!this.#weather[this.#way] && this.#queue[0]) {
      const { chunk, dueMs } = this.#queue[0]
      const waitMs = dueMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#pump(), Math.ceil(waitMs))
        break
      }
      this.#queue.shift()
      this.#pass(chunk)
    }
    if (this.#heldBytes + this.#to.writableLength > maxHeldBytes) this.#from.pause()
    else this.#from.resume()
  }

  #pass(chunk: Buffer | null): void {
    if (chunk === null) return void this.#to.end()
    this.#heldBytes -= chunk.length
    this.#bytes[this.#way] += chunk.length
    this.#to.write(chunk)
  }
}
