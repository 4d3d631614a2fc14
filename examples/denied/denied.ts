// What a denied caller is sent.
import { headgate } from 'headgate/fetch'
import { fakeClock } from 'headgate/testing'

// #region limits
const limit = headgate({
  limits: {
    key: { limit: '100/min', by: 'header:x-api-key' },
    ip: { limit: '2/min', by: 'ip' },
  },
  clock: fakeClock(1_800_000_000_000),
})
// #endregion

const handler = limit(async (_request: Request, _connection: object) => new Response('hello'))
const ask = () =>
  handler(new Request('http://localhost/', { headers: { 'X-API-Key': 'k1' } }), {
    remoteAddr: { hostname: '192.0.2.1' },
  })

await ask()
await ask()
const denied = await ask()
console.log(denied.status)
for (const [name, value] of denied.headers) console.log(`${name}: ${value}`)
console.log(`\n${JSON.stringify(await denied.json(), null, 2)}`)
