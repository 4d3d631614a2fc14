import type { RequestListener } from 'node:http'
import { expect, test } from 'vitest'
import { say } from '../test/gateway.ts'
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

test.each([
  ['100-Continue', 'HTTP/1.1 100 Continue\r\n\r\n', 'hello'],
  ['100-continue, more', 'HTTP/1.1 417 Expectation Failed\r\n', undefined],
  ['more', 'HTTP/1.1 417 Expectation Failed\r\n', undefined],
])('who expects %s is told at once whether to go on', async (expectation, told, end) => {
  const { rules } = parseRules('limits: {}')
  const go: RequestListener = (_req, res) => {
    res.writeContinue()
    res.end('hello')
  }
  const server = httpServer(rules.server, undefined, go, { continues: true })
  const port = await listen(server, 0, '127.0.0.1')
  const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: ${expectation}\r\nConnection: close\r\n\r\n`
  expect((await say(port, head, end)).startsWith(told)).toBe(true)
  await drain(server, 0)
})
