// Somebody else whom the service has to ask: answers each question after a while, in a process of its own.
import { type AddressInfo, createServer } from 'node:net'

const WAIT_MS = 10

const server = createServer((socket) => {
  socket.setNoDelay(true).on('error', () => {})
  socket.on('data', () => void setTimeout(() => socket.write('.'), WAIT_MS))
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.once('disconnect', () => process.exit(0))
