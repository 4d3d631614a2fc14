// #region quick-start
import fastify from 'fastify'
import { headgate } from 'headgate/fastify'

export const app = fastify()
await app.register(headgate, { limit: '100/min' }) // per client address
// #endregion

app.get('/', async () => 'hello\n')
app.get('/health', { config: { headgate: false } }, async () => ({ up: true }))

// #region one-decision
await app.register(async (api) => {
  await api.register(headgate, {
    limits: {
      key: { limit: '10/s burst 20', by: 'api-key' },
      ip: { limit: '3/min', by: 'ip' }, // a key that leaked is used from many addresses, a thief of many keys has few
    },
  })
  api.get('/search', async () => ({ results: [] }))
})
// #endregion

if (process.argv[1] === import.meta.filename) await app.listen({ port: 3000 })
