// What a public API asks of every request, decided as one: all limits are charged or none is.
import { createGate } from 'headgate'

interface Call {
  readonly apiKey: string
  readonly ip: string
  readonly org: string
  readonly plan: string
}

// #region gate
const gate = createGate({
  limits: {
    key: { limit: '100/s burst 200', by: (call: Call) => call.apiKey },
    ip: { limit: '4/10s', by: (call) => call.ip },
    plan: {
      limit: { free: '60/min', pro: '600/min', enterprise: 'unlimited' },
      tier: (call) => call.plan,
      by: (call) => call.org,
    },
    month: { limit: '1_000_000/month calendar', by: (call) => call.org },
    busy: { atOnce: 2, by: (call) => call.apiKey },
  },
})
// #endregion

// #region handle
async function handle(name: string, call: Call): Promise<void> {
  const decision = gate.take(call)
  if (!decision.ok) return console.log(`${name}: refused by ${decision.violated.join(' and ')}`)
  try {
    console.log(`${name}: passes`)
    await new Promise((done) => setImmediate(done)) // the work
  } finally {
    decision.release() // frees the slot of `busy`
  }
}
// #endregion

const call: Call = { apiKey: 'k1', ip: '192.0.2.1', org: 'acme', plan: 'pro' }

// Two at once fit; the third finds both slots taken.
await Promise.all(['first', 'second', 'third'].map((name) => handle(name, call)))

// The two slots are free again, and the two units of `ip` that are left go with them.
await Promise.all(['fourth', 'fifth', 'sixth'].map((name) => handle(name, call)))

// Another address under the same API key: `ip` counts by address, so it does not mind.
await handle('seventh', { ...call, ip: '192.0.2.2' })

const month = gate.peek(call).limits.find(({ name }) => name === 'month')
console.log(`left this month: ${month?.remaining}: the refused calls were charged nowhere`)
