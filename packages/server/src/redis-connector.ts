import type { Socket } from 'node:net'
import { AbstractConnector } from 'ioredis'
import { connectWithSlabs } from './slabs.ts'

/** What ioredis has read from its options. */
interface Target {
  readonly path?: string | null
  readonly host?: string
  readonly port: number
  readonly family?: number
  readonly disconnectTimeout: number
}

/** Lets ioredis connect so, where it would connect to one server without TLS. */
export class SlabConnector extends AbstractConnector {
  readonly #options: Target

  constructor(options: unknown) {
    super((options as Target).disconnectTimeout)
    this.#options = options as Target
  }

  override async connect(): Promise<Socket> {
    const { path, host = 'localhost', port, family = 0 } = this.#options
    this.connecting = true
    await Promise.resolve() // whoever asked may still change its mind, as with other connectors
    if (!this.connecting) throw new Error('Connection is closed.')
    const socket = connectWithSlabs(path ? { path } : { host, port, family })
    this.stream = socket
    socket.once('error', (error) => {
      this.firstError = error
    })
    return socket
  }
}
