import express from 'express'
import { headgate } from 'headgate/express'

export const app = express()

app.use(
  '/api',
  headgate({
    limit: '100/min',
    by: (req) => req.get('x-api-key') ?? 'nobody',
    when: (req) => req.path !== '/health',
    headers: 'draft-7',
    onDenied: (_decision, _req, res) => void res.json({ error: 'slow down' }), // status and fields are set
  }),
)
app.use(
  '/login',
  headgate({
    limit: '5/15min',
    countWhen: ({ status }) => status >= 400,
    headers: 'legacy',
    message: 'Too many wrong passwords.',
  }),
)
