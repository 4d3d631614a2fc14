// REDIS_URL=redis://127.0.0.1:6379 PORT=3000 TRUST_PROXY=loopback npx tsx examples/url-shortener/main.ts
import { start } from './start.ts'

const { url } = await start(process.env)
console.log(`Shortening at ${url}`)
