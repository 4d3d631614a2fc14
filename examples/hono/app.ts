// #region quick-start
import { serve } from '@hono/node-server'
import { headgate } from 'headgate/hono'
import { Hono } from 'hono'

export const app = new Hono()
app.use(headgate({ limit: '100/min' })) // per client address
// #endregion

app.get('/', (c) => c.text('hello\n'))

// #region tiers
const plans = new Map([
  ['key-of-ann', 'free'],
  ['key-of-acme', 'pro'],
])
const planOf = (key = '') => plans.get(key)

const plan = headgate({
  limits: {
    plan: {
      limit: { free: '3/min', pro: '600/min', enterprise: 'unlimited' },
      tier: (c) => planOf(c.req.header('x-api-key')) ?? '',
      by: 'header:x-api-key', // the header that is checked below, and no other
    },
  },
})

app.use('/api/*', async (c, next) => {
  if (planOf(c.req.header('x-api-key')) === undefined) return c.json({ error: 'unknown key' }, 401)
  await next()
})
app.get('/api/rate_limit', plan.status)
app.use('/api/*', plan)
app.get('/api/search', (c) => c.json({ results: [] }))
// #endregion

if (process.argv[1] === import.meta.filename) serve({ fetch: app.fetch, port: 3000 })
