// What somebody who guesses addresses of pages sees of it.
import { fakeClock } from 'headgate/testing'
import { seen } from '../seen.ts'
import { edge } from './cloudflare.ts'

const rule = {
  matches: (request: Request) => new URL(request.url).pathname.startsWith('/wp-'),
  counts: ({ status }: Response) => status === 404,
  limit: '5/10s',
  mitigationMs: 60_000,
} as const
const clock = fakeClock()
const origin = async () => new Response('not found', { status: 404 })
const [frankfurt, paris] = [edge(rule, origin, { clock }), edge(rule, origin, { clock })]
const get = (colo: typeof paris, path: string) =>
  colo(new Request(`http://localhost${path}`, { headers: { 'cf-connecting-ip': '203.0.113.7' } }))

for (let i = 1; i <= 4; i++) await get(frankfurt, `/wp-${i}`)
await seen('the fifth guess', await get(frankfurt, '/wp-admin'))
await seen('the sixth', await get(frankfurt, '/wp-login'))
await seen('another page', await get(frankfurt, '/about'))
await seen('in another data centre', await get(paris, '/wp-login'))
clock.advance(59_999)
await seen('after 59.999 seconds', await get(frankfurt, '/wp-login'))
clock.advance(1)
await seen('after a minute', await get(frankfurt, '/wp-login'))
