import { Agent, type IncomingMessage, request } from 'node:http'
import { expect, test } from 'vitest'
import { randomBy } from '../../../headgate/test/random.ts'
import { idle, startGateway, startUpstream } from '../../test/gateway.ts'

/** Answers whole, in pieces, never, or breaks off, as the path says. */
function misbehave(req: IncomingMessage, res: import('node:http').ServerResponse): void {
  req.on('error', () => {})
  const way = Number(req.url?.slice(1))
  if (way === 0) res.destroy()
  else if (way === 1) res.writeHead(200, { 'Content-Length': '100000' }).write('x'.repeat(50_000), () => res.destroy())
  else if (way === 2) req.resume().on('end', () => res.end('y'.repeat(100_000)))
  else if (way === 3) res.writeHead(403).end('early')
  else if (way === 4) {
    res.write('z')
    setTimeout(() => res.end('z'.repeat(200_000)), 10)
  } else req.resume().on('end', () => res.end())
}

/** One request that may leave at any time. Ends when nothing of it is left. */
function wander(url: string, agent: Agent, random: () => number): Promise<void> {
  return new Promise((resolve) => {
    const method = random() < 0.5 ? 'GET' : 'POST'
    const expects = method === 'POST' && random() < 0.2 ? { Expect: '100-continue' } : {}
    const asked = request(`${url}/${Math.floor(random() * 6)}`, { method, agent, headers: expects })
    const leaveAt = random()
    const leave = (moment: number) => leaveAt > moment && leaveAt < moment + 0.1 && asked.destroy()
    asked.on('error', () => {}).on('close', resolve)
    asked.on('response', (response) => {
      response.on('error', () => {}).resume()
      leave(0.3)
      setImmediate(leave, 0.4)
    })
    if (method === 'POST')
      for (let i = 0; i < random() * 10; i++) asked.write('b'.repeat(Math.floor(random() * 30_000)))
    leave(0)
    setImmediate(leave, 0.1)
    setTimeout(leave, random() * 20, 0.2)
    asked.end()
  })
}

test.each([1, 20_261_116])(
  'tells the end of every request once and leaks nothing, whatever happens (seed %i)',
  async (seed) => {
    const random = randomBy(seed)
    const upstreams = await Promise.all([0, 1].map(() => startUpstream(misbehave)))
    for (const { server } of upstreams) {
      server.on('checkContinue', (req, res) => {
        if (req.url !== '/3') res.writeContinue()
        misbehave(req, res)
      })
    }
    const ends = new Map<IncomingMessage, number>()
    const gateway = await startGateway({
      to: [{ name: 'all', urls: upstreams.map(({ url }) => url) }],
      hooks: (req) => {
        ends.set(req, 0)
        return { onDone: () => void ends.set(req, (ends.get(req) ?? 0) + 1) }
      },
    })
    const agent = new Agent({ keepAlive: true, maxSockets: 60 })
    for (let round = 0; round < 5; round++) {
      await Promise.all(Array.from({ length: 100 }, () => wander(gateway.url, agent, random)))
    }
    agent.destroy()
    await idle(gateway)
    expect(ends.size).toBeGreaterThan(300)
    expect([...ends.values()].filter((times) => times !== 1)).toEqual([])
    const kinds = new Set(gateway.outcomes.map(({ status, aborted }) => `${status} ${aborted}`))
    for (const kind of ['200 false', '200 client', '200 upstream', '0 client', '502 false'])
      expect(kinds).toContain(kind)
  },
  60_000,
)
