// An API that says in words of its own what is left, and calls that are told more about than most.
import { politeFetch, type Told } from 'headgate/client'

// #region dialect
export const polite = politeFetch({
  limit: '600/min', // known from its documentation; what it says itself is obeyed as well
  concurrency: 8,
  maxWaitMs: 30_000,
  dialect: ({ status, header }): Told => ({
    refused: status === 420,
    policies: [
      { name: 'calls', limit: 600, remaining: Number(header('x-calls-left')), windowMs: 60_000, source: 'vendor' },
    ],
  }),
})
// #endregion

// #region calls
export async function pay(order: { id: string; cents: number }, signal: AbortSignal): Promise<Response> {
  return polite('https://api.example/payments', {
    method: 'POST',
    body: JSON.stringify(order),
    idempotencyKey: `pay-${order.id}`, // so that it may be repeated when there was no answer
    priority: 'critical',
    deadlineMs: 20_000,
    signal,
  })
}

export async function summarise(text: string): Promise<Response> {
  return polite('https://api.example/summaries', { method: 'POST', body: text, weight: { tokens: text.length / 4 } })
}
// #endregion
