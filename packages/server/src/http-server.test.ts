import { expect, test } from 'vitest'
import { parseRules } from './config/load.ts'
import { drain, httpServer, listen } from './http-server.ts'

test('a connection that could not be accepted ends nothing', async () => {
  const { rules } = parseRules('limits: {}')
  const server = httpServer(rules.server, undefined, (_req, res) => void res.end('hello'))
  const port = await listen(server, 0, '127.0.0.1')
  server.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }))
  expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe('hello')
  await drain(server, 0)
})
