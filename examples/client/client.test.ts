import { createServer } from 'node:http'
import { request } from 'undici'
import { expect, test } from 'vitest'
import { printed } from '../printed.ts'
import { urlOf } from '../serving.ts'

test('thirty calls to ten a second are all answered, and none is refused', async () => {
  await expect(await printed(() => import('./client.ts'))).toMatchFileSnapshot('output.txt')
})

test('a dialect of your own, and calls that say more of themselves', async () => {
  const { polite } = await import('./own-dialect.ts')
  let calls = 0
  const server = createServer((_req, res) => {
    res.writeHead(++calls === 1 ? 420 : 200, { 'x-calls-left': `${600 - calls}` }).end('ok')
  }).listen(0, '127.0.0.1')
  expect((await polite(await urlOf(server))).status).toBe(200)
  expect(polite.state().hosts[0]?.budgets[0]).toMatchObject({ name: 'calls', limit: 600 })
})

test('other clients take the options that are made for them', async () => {
  const { withAxios, withUndici } = await import('./other-clients.ts')
  const server = createServer((_req, res) => void res.end('{"ok":true}')).listen(0, '127.0.0.1')
  const url = await urlOf(server)
  expect((await withAxios.get(url)).data).toEqual({ ok: true })
  expect(await (await request(url, { dispatcher: withUndici })).body.json()).toEqual({ ok: true })
  await withUndici.close()
})
