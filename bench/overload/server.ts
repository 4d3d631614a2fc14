// A service that asks somebody else and computes a little, in a process of its own: one core is what it has.
import { pbkdf2Sync } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { headgate } from 'headgate/node'
import { createOverload, fixed, type Priority } from 'headgate/overload'
import { FIXED, OURS } from './variants.ts'

const ROUNDS = 6_000
/** Of the fixed limit: what this service needs when it is just busy, found by trying. Ours has to find it by itself. */
const SLOTS = 12

const [variant = '', otherPort = ''] = process.argv.slice(2)

/** Connections to the other, one question at a time on each. */
const idle: Socket[] = []

function ask(): Promise<void> {
  const socket = idle.pop() ?? connect(Number(otherPort), '127.0.0.1').setNoDelay(true)
  return new Promise((resolve) => {
    socket.once('data', () => {
      idle.push(socket)
      resolve()
    })
    socket.write('?')
  })
}

const handler: RequestListener = async (_req, res) => {
  await ask()
  pbkdf2Sync('secret', 'salt', ROUNDS, 32, 'sha256')
  res.end('done')
}

const priority = (req: IncomingMessage) => req.headers['x-priority'] as Priority

function protectedBy(variant: string): RequestListener {
  if (variant === FIXED) {
    const overload = createOverload({ concurrency: fixed(SLOTS), queue: false, utilisation: false })
    const gate = headgate({ overload })
    return (req, res) => void gate(req, res, () => void handler(req, res))
  }
  if (variant !== OURS) return handler
  const gate = headgate({ overload: createOverload({}), priority })
  return (req, res) => void gate(req, res, () => void handler(req, res))
}

const server = createServer(protectedBy(variant))
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.once('disconnect', () => process.exit(0))
