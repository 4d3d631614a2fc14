import express from 'express'
import { rateLimit } from 'express-rate-limit'

export const app = express()

app.use(
  '/api',
  rateLimit({
    windowMs: 60_000,
    limit: 100,
    keyGenerator: (req) => req.get('x-api-key') ?? 'nobody',
    skip: (req) => req.path === '/health',
    standardHeaders: 'draft-7',
    legacyHeaders: false,
    handler: (_req, res) => void res.status(429).json({ error: 'slow down' }),
  }),
)
app.use(
  '/login',
  rateLimit({
    windowMs: 15 * 60_000,
    limit: 5,
    skipSuccessfulRequests: true,
    message: 'Too many wrong passwords.',
  }),
)
