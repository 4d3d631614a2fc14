// An app that does as much at once as it can, the most important first.
import type { Server } from 'node:http'
import express, { type Request } from 'express'
import { headgate } from 'headgate/express'
import { createOverload, type Priority } from 'headgate/overload'

// #region app
const priorityOf = (req: Request): Priority => (req.path.startsWith('/pay/') ? 'critical' : 'normal')

const overload = createOverload({ concurrency: 4, queue: { size: 20 } }) // without a number it finds out how many fit
const app = express()
app.use(
  headgate({
    overload,
    priority: priorityOf,
    limits: {
      ip: { limit: '100/s burst 200', by: 'ip' },
      // What all processes on one store do together: a fifth of 10,000 a second is kept for payments.
      fleet: { limit: '8000/s', when: (req) => priorityOf(req) !== 'critical', overload: true },
    },
  }),
)
// #endregion

app.get('/pay/:id', (_req, res) => res.send('paid'))
app.get('/slow', (req, res) => {
  const timer = setTimeout(() => res.send('done'), 30_000)
  req.socket.once('close', () => clearTimeout(timer))
})

export function start(): { server: Server; overload: typeof overload } {
  return { server: app.listen(0, '127.0.0.1'), overload }
}
