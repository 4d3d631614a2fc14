// Calls to a service that has a bad day, and what stands between it and us: a breaker, a retry budget, a throttle.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createBreaker, createRetryBudget, createThrottle } from 'headgate/overload'

let reached = 0
let accepts = (_request: number) => false
const server = createServer((_, res) => res.writeHead(accepts(++reached) ? 200 : 503).end())
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const send = async () => (await fetch(url)).status

/** How many of a hundred calls got an answer that is of use, and how many reached the service for that. */
async function hundred(what: string, call: () => Promise<number | undefined>): Promise<void> {
  reached = 0
  let good = 0
  for (let i = 0; i < 100; i++) if ((await call()) === 200) good++
  console.log(`${what}: ${reached} of 100 sent, ${good} good`)
}

// #region breaker
const breaker = createBreaker({
  openMs: 1_000,
  onChange: ({ from, to }) => console.log(`the breaker was ${from}, is ${to}`),
})

async function guarded(): Promise<number | undefined> {
  const passage = breaker.enter()
  if (passage === undefined) return undefined // not sent: breaker.retryAfterMs() says when to try
  try {
    const status = await send()
    passage.done(status < 500 ? 'success' : 'failure')
    return status
  } catch (error) {
    passage.done('failure')
    throw error
  }
}
// #endregion

// #region budget
const budget = createRetryBudget({ ratio: 0.1, minPerSecond: 0 })

async function retried(): Promise<number> {
  budget.deposit()
  let status = await send()
  for (let attempt = 1; status === 503 && attempt < 3 && budget.withdraw(); attempt++) status = await send()
  return status
}
// #endregion

// #region throttle
const throttle = createThrottle({ k: 2 })

async function throttled(): Promise<number | undefined> {
  if (!throttle.enter('normal')) return undefined // refused here, which costs the service nothing
  const status = await send()
  throttle.done(status === 503 ? 'refused' : 'accepted', 'normal')
  return status
}
// #endregion

await hundred('with a breaker, while all fails', guarded)
await new Promise((resolve) => setTimeout(resolve, breaker.retryAfterMs() + 1))
accepts = () => true
await hundred('with a breaker, once it is well', guarded)

accepts = () => false
await hundred('each tried three times within a budget, while all fails', retried)

let room = 0
accepts = () => room >= 1 && room-- >= 1
for (const round of ['first', 'next', 'third'])
  await hundred(`with a throttle, while it can do an eighth, the ${round} hundred`, () => {
    room = Math.min(1, room + 0.125)
    return throttled()
  })
server.close()
