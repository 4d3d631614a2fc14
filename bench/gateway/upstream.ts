// Says hello, in a process of its own.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const server = createServer((_req, res) => res.end('Hello, world'))
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.once('disconnect', () => process.exit(0))
