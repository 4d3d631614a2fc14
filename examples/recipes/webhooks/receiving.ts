// Receiving webhooks: a burst is taken in, what is above waits a moment, and the rest is told to come again.
import express, { type Express } from 'express'
import type { GateOptions } from 'headgate'
import { headgate } from 'headgate/express'

export function receiver(handle: (event: unknown) => Promise<void>, counting: GateOptions = {}): Express {
  const limit = headgate({
    limits: {
      // It is about us, not about the sender: 503, which every sender repeats; many take a 429 for an error.
      hooks: { limit: '50/s burst 200', overload: true },
    },
    delay: 1_000, // fifty more are held back, for a second at most
    retryJitterMs: 10_000, // so that not all come again at once
    ...counting,
  })
  return express().post('/hooks', limit, express.json(), async (req, res) => {
    await handle(req.body)
    res.status(204).end()
  })
}
