import { connect, type NetConnectOpts, type Socket } from 'node:net'

/** What was read last, on whichever connection: it is copied before anything else is read. */
const scratch = Buffer.allocUnsafeSlow(64 * 1024)

/**
 * A connection whose small pieces share slabs of memory. Node gives each piece a block of its own, and a collection frees thousands of
 * them in one go, which took longer than all else it does.
 */
export function connectWithSlabs(options: NetConnectOpts): Socket {
  const callback = (bytes: number): boolean => {
    const piece = Buffer.allocUnsafe(bytes)
    scratch.copy(piece, 0, 0, bytes)
    return socket.push(piece)
  }
  const socket = connect({ ...options, onread: { buffer: scratch, callback } })
  return socket
}
