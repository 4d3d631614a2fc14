// Outgoing mail at ten a second, evenly spaced: who comes too early stands in line instead of being refused.
import { createGate, type WaitOptions } from 'headgate'

// #region gate
const gate = createGate({ limit: '10/s burst 1', algorithm: 'leaky-bucket' })

async function send(mail: string, options?: WaitOptions): Promise<void> {
  const decision = await gate.wait('smtp', options)
  if (decision.ok) console.log(`${mail}: sent`)
  else console.log(`${mail}: not sent, the wait would be ${(decision.retryAfterMs / 1000).toFixed(1)} s`)
}
// #endregion

// #region line
const changedMind = new AbortController()

const mails = [
  send('first'),
  send('second'),
  send('third', { signal: changedMind.signal }).catch((reason) => console.log(`third: given up, ${reason}`)),
  send('fourth'),
  send('impatient', { maxMs: 50 }), // would take longer, so it is told at once
]
console.log(`a take now: ${gate.take('smtp').ok ? 'overtakes' : 'does not overtake'}`)
changedMind.abort('changed my mind') // leaves no hole: the fourth moves up

await Promise.all(mails)
// #endregion
