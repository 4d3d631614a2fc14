// #region quick-start
import { headgate } from 'headgate/ws'
import { WebSocketServer } from 'ws'

const limit = headgate({ limit: '5/min' }) // messages per client address

export function chat(port: number): WebSocketServer {
  const server = new WebSocketServer({ port, maxPayload: 64 * 1024 })
  server.on(
    'connection',
    limit((socket) => {
      socket.on('message', (data) => socket.send(`you said ${data}`))
    }),
  )
  return server
}
// #endregion

if (process.argv[1] === import.meta.filename) chat(3000)
