import { createGate } from 'headgate'

const gate = createGate({ limit: '10/min burst 3' })

for (let call = 1; call <= 4; call++) {
  const { ok, remaining, retryAfterMs } = gate.take('user-1')
  if (ok) console.log(`call ${call}: go ahead, ${remaining} left`)
  else console.log(`call ${call}: refused, come back in ${Math.ceil(retryAfterMs / 1000)} s`)
}
