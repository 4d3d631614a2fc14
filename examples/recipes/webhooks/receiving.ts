// Receiving webhooks: a burst is taken in, what is above waits a moment, and the rest is told to come again.
import express, { type Express } from 'express'
import { headgate } from 'headgate/express'
import type { Counting } from '../counting.ts'

// #region receiving
export function receiver(handle: (event: unknown) => Promise<void>, counting: Counting = {}): Express {
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
// #endregion
