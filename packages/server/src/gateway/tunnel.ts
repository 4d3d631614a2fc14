import type { Duplex } from 'node:stream'

export type Side = 'client' | 'upstream'

export interface TunnelOwner {
  moved(): void
  /** Both ends are closed. @param brokenBy who left without a word, if one did */
  tunnelClosed(brokenBy: Side | false): void
}

/** Two sockets, each saying what the other one hears. An end passes on as an end, a broken one breaks the other. */
export class Tunnel {
  bytesIn = 0
  bytesOut = 0
  readonly #client: Duplex
  readonly #upstream: Duplex
  readonly #owner: TunnelOwner
  #brokenBy: Side | false = false
  #open = 2
  #tearing = false

  constructor(client: Duplex, upstream: Duplex, owner: TunnelOwner) {
    this.#client = client
    this.#upstream = upstream
    this.#owner = owner
    this.#join(client, upstream, 'client')
    this.#join(upstream, client, 'upstream')
  }

  destroy(): void {
    this.#tearing = true
    this.#client.destroy()
    this.#upstream.destroy()
  }

  #join(from: Duplex, to: Duplex, side: Side): void {
    from.on('data', (chunk: Buffer) => {
      if (side === 'client') this.bytesIn += chunk.length
      else this.bytesOut += chunk.length
      this.#owner.moved()
      if (!to.write(chunk)) from.pause()
    })
    to.on('drain', () => from.resume())
    from.on('end', () => to.end())
    from.on('error', () => this.#broken(side))
    from.on('close', () => this.#closed(from, to, side))
    from.resume()
  }

  #broken(side: Side): void {
    if (!this.#tearing && !this.#brokenBy) this.#brokenBy = side
  }

  #closed(from: Duplex, to: Duplex, side: Side): void {
    if (!from.readableEnded) this.#broken(side)
    this.#tearing = true // whatever the other side does now follows from this
    // After a clean end, what is still on its way to the other side may arrive there.
    if (from.readableEnded && !to.writableFinished && !to.destroyed) to.end(() => to.destroy())
    else to.destroy()
    if (--this.#open === 0) this.#owner.tunnelClosed(this.#brokenBy)
  }
}
