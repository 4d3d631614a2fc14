// npx tsx examples/remote/remote.ts: processes that count in the service. Here they are two gates, and the service is at hand.
import { createGate } from 'headgate'
import { remote } from 'headgate/remote'
import { serve } from 'headgate-server'

const token = 'a-token-of-yours'
// #region service
const rules = 'server: { host: 127.0.0.1, port: 0, adminPort: 0 }' // or a file; port 0 takes a free one
const service = await serve({ text: rules, env: { HEADGATE_TOKEN: token } })
// #endregion
const url = `http://127.0.0.1:${service.port}`

// #region gate
/** What every process does at its start. */
async function gateOf() {
  const store = remote(url, { token })
  await store.ready() // finds a wrong address or token now, not at the first request
  return createGate({ store, limit: '3/min', timeoutMs: 500 })
}
// #endregion

const [here, there] = [await gateOf(), await gateOf()]
for (const [name, gate] of Object.entries({ here, there })) {
  const [first, second] = [await gate.take('ann'), await gate.take('ann')]
  console.log(`${name}: ${first.ok ? 'passes' : 'refused'}, ${second.ok ? 'passes' : 'refused'}`)
}

await service.stop()
const alone = await here.take('ann')
console.log(`the service is away: ${alone.ok ? 'passes' : 'refused'}, counted ${alone.degraded || 'there'}`)
