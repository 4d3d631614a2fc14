import { createServer, get, type IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { LinedResponse, takesLines } from './head-lines.ts'

it('sends lines as they are, before the fields that Node makes', async () => {
  const server = createServer({ ServerResponse: LinedResponse }, (_req, res) => {
    expect(takesLines(res)).toBe(true)
    res.lines = 'ratelimit: "a";r=1\r\nratelimit-policy: "a";q=2\r\n'
    res.writeHead(200, ['content-length', '2']).end('ok')
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const { rawHeaders } = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ port, host: '127.0.0.1' }, (res) => resolve(res.resume())).on('error', reject)
  })
  server.close()
  expect(rawHeaders.slice(0, 6)).toEqual(['ratelimit', '"a";r=1', 'ratelimit-policy', '"a";q=2', 'content-length', '2'])
})

it('takes no lines for a response that would not send them', () => {
  expect(takesLines(new ServerResponse({} as IncomingMessage))).toBe(false)
})
