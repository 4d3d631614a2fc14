import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Bag } from '../bag.ts'
import { Exchange } from './exchange.ts'
import { untrusted } from './forwarded.ts'
import { type Problem, problems } from './problem.ts'
import type { Owner, Reply } from './reply.ts'
import { type RequestHead, readRequest } from './request-head.ts'
import type { Hooks, HttpProxy, Peer, ProxyOptions, ProxyStats, UpstreamOptions } from './types.ts'
import { UpgradeExchange } from './upgrade.ts'
import { type Upstream, Upstreams } from './upstream.ts'

/** Forwards requests to upstreams. Decides nothing: whoever calls has let the request pass. */
export function createProxy(options: ProxyOptions): HttpProxy {
  return new ReverseProxy(options)
}

/** The shortest time that somebody may take is looked at so many times within it, so who is too slow goes about a quarter late, never early. */
const LOOKS = 4
const SHORTEST_TICK_MS = 10
const LONGEST_TICK_MS = 1_000

class ReverseProxy implements HttpProxy, Owner {
  nowMs = 0
  readonly maxBodyBytes: number
  readonly via: string | undefined
  readonly #trust: (req: IncomingMessage) => Peer
  readonly #tell: Pick<ProxyOptions, 'onHealth' | 'onBreaker'>
  readonly #running = new Bag<Exchange>()
  #upstreams: Upstreams
  #ticker: NodeJS.Timeout
  #tickMs: number
  #closing = false
  #onEmpty: (() => void) | undefined

  constructor({ upstreams, maxBodyBytes = Infinity, trust = untrusted, via, ...tell }: ProxyOptions) {
    this.maxBodyBytes = maxBodyBytes
    this.via = via
    this.#trust = trust
    this.#tell = tell
    this.#upstreams = new Upstreams(upstreams, tell)
    this.#tickMs = tickFor(this.#upstreams)
    this.#ticker = setInterval(this.#look, this.#tickMs).unref()
  }

  handle(req: IncomingMessage, res: ServerResponse, hooks?: Hooks): void {
    const exchange = new Exchange(this, req, res, hooks)
    this.#running.add(exchange)
    // It may have left while others were deciding, and then no event will tell.
    if (res.destroyed || req.socket.destroyed) exchange.closed()
    else exchange.start(this.#read(req, hooks?.peer))
  }

  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, hooks?: Hooks): void {
    const exchange = new UpgradeExchange(this, req, socket as Socket, head, hooks)
    this.#running.add(exchange)
    const read = this.#read(req, hooks?.peer)
    if (socket.destroyed) exchange.closed()
    // Node took what follows the head for the other protocol, so there is no body that could be forwarded.
    else exchange.start('length' in read && read.length !== 0 ? withBody : read)
  }

  update(upstreams: readonly UpstreamOptions[]): void {
    if (this.#closing) return
    this.#upstreams = new Upstreams(upstreams, this.#tell, this.#upstreams)
    const tickMs = tickFor(this.#upstreams)
    if (tickMs === this.#tickMs) return // or who changes them often enough would stop the clock
    clearInterval(this.#ticker)
    this.#tickMs = tickMs
    this.#ticker = setInterval(this.#look, tickMs).unref()
  }

  stats(): ProxyStats {
    let upgraded = 0
    for (const exchange of this.#running.all())
      if (exchange instanceof UpgradeExchange && exchange.isUpgraded) upgraded++
    return { inFlight: this.#running.size, upgraded, upstreams: this.#upstreams.stats() }
  }

  async close({ graceMs = 0 }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#closing = true
    this.#upstreams.stop()
    if (this.#running.size > 0) await this.#emptied(graceMs)
    for (const exchange of this.#running.all()) exchange.breakOff('upstream', 'no_upstream')
    clearInterval(this.#ticker)
    this.#upstreams.destroy()
  }

  route(head: RequestHead): Upstream | undefined {
    return this.#upstreams.route(head.path, head.host ?? '')
  }

  left(reply: Reply): void {
    this.#running.delete(reply as Exchange)
    if (this.#running.size === 0) this.#onEmpty?.()
  }

  #read(req: IncomingMessage, peer = this.#trust(req)): RequestHead | Problem {
    return this.#closing ? problems.closing : readRequest(req, peer, this.via)
  }

  #emptied(graceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, graceMs)
      this.#onEmpty = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** One timer for all: a timer per request costs more than looking at each a few times. */
  readonly #look = (): void => {
    const beforeMs = this.nowMs
    this.nowMs += this.#tickMs
    for (const exchange of this.#running.all()) {
      // What moved did so at any time until the look that followed.
      const quietMs = beforeMs - exchange.movedAtMs
      if (quietMs > 0) exchange.quiet(quietMs)
    }
  }
}

const withBody: Problem = { code: 'bad_request', detail: 'A request to change the protocol must have no body.' }

function tickFor({ list }: Upstreams): number {
  const times = list.flatMap(({ idleTimeoutMs, headersTimeoutMs, bodyTimeoutMs }) => [
    idleTimeoutMs,
    headersTimeoutMs,
    bodyTimeoutMs,
  ])
  const shortest = Math.min(LONGEST_TICK_MS * LOOKS, ...times)
  return Math.max(SHORTEST_TICK_MS, Math.floor(shortest / LOOKS))
}
