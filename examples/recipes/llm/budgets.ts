// A proxy to a language model: each team has tokens for the minute and money for the month.
import type { GateOptions, Store } from 'headgate'
import { llmBudget, type Settled, usd } from 'headgate/llm'

export interface Team {
  readonly name: string
  readonly plan: 'trial' | 'paid'
}

interface Options extends GateOptions {
  readonly send: (path: string, body: object) => Promise<Response>
  /** Told once in a month, when a team has used four fifths of it. */
  readonly onNearlySpent: (team: Team, left: number) => void
}

export function proxy({ send, onNearlySpent, ...counting }: Options) {
  const budget = llmBudget<Team, Store>({
    by: ({ name }) => name,
    tier: ({ plan }) => plan,
    limits: {
      requests: '60/min',
      tokens: { limit: { trial: '10000/min', paid: '200000/min' } },
      money: { limit: { trial: usd('0.10/month calendar'), paid: usd('500/month calendar') } },
    },
    prices: { 'gpt-4o': { input: 2.5, output: 10 } }, // dollars for a million tokens
    defaultOutput: 500, // reserved for a call that sets no max_tokens
    onSettled: warn,
    ...counting,
  })

  const warned = new Set<string>()
  async function warn({ caller }: Settled<Team>): Promise<void> {
    const money = (await budget.left(caller)).find(({ name }) => name === 'money')
    const isNearlySpent = money !== undefined && money.remaining <= money.limit / 5
    if (isNearlySpent && !warned.has(caller.name)) onNearlySpent(caller, money.remaining)
    if (isNearlySpent) warned.add(caller.name)
    else warned.delete(caller.name) // a new month
  }

  return (team: Team, path: string, body: object) => budget.call(team, body, () => send(path, body), { path })
}
