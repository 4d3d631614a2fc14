import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { type AdminRig, READ, startAdmin } from '../../test/admin.ts'

interface Seen {
  readonly id?: string
  readonly event: string
  // biome-ignore lint/suspicious/noExplicitAny: events have every shape
  readonly data: any
}

interface Reader {
  readonly seen: Seen[]
  /** All that came, comments too. */
  text(): string
  next(event: string): Promise<Seen>
  leave(): void
}

/** A reader as a browser has one. */
async function read(port: number, lastId?: string): Promise<Reader> {
  const headers = { authorization: `Bearer ${READ}`, ...(lastId !== undefined && { 'last-event-id': lastId }) }
  const req = get({ port, host: '127.0.0.1', path: '/admin/v1/events', headers })
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  expect(res.headers['content-type']).toBe('text/event-stream')
  let text = ''
  res.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  res.on('error', () => {})
  const leave = () => void req.destroy()
  onTestFinished(leave)
  const next = (event: string) => until(event, () => parse(text).find((each) => each.event === event))
  await next('hello')
  return {
    get seen() {
      return parse(text)
    },
    text: () => text,
    next,
    leave,
  }
}

function parse(text: string): Seen[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)))
      return fields.event === undefined ? [] : [{ ...fields, data: JSON.parse(fields.data) } as Seen]
    })
}

test('tells changes at once, with masked keys', async () => {
  const { port, ask, service } = await startAdmin()
  const reader = await read(port)
  const [limit, key, forMs] = ['per-key', 'secret-key-1', 60_000]
  await ask('PUT', '/admin/v1/limits/per-key/mode', { body: { mode: 'observe' } })
  expect((await reader.next('mode')).data).toMatchObject({ limit, mode: { mode: 'observe' } })
  const made = await ask('POST', '/admin/v1/blocks', { body: { limit, key, forMs } })
  expect((await reader.next('block')).data).toMatchObject({ lifted: false, block: { key: made.json.key } })
  await ask('POST', '/admin/v1/overrides', { body: { limit, key, to: '1/s', forMs } })
  expect((await reader.next('override')).data).toMatchObject({ override: { to: '1/s', key: made.json.key } })
  await ask('DELETE', `/admin/v1/keys/per-key/${key}`)
  expect((await reader.next('reset')).data).toMatchObject({ limit, key: made.json.key })
  await ask('PUT', '/admin/v1/rules', { body: 'limits: { one: { limit: 1/min } }' })
  expect((await reader.next('rules')).data).toMatchObject({ generation: 2, changed: expect.arrayContaining(['one']) })
  service.tell({ type: 'rules-refused', origin: 'file', reason: 'line 3' })
  expect((await reader.next('rules-refused')).data).toMatchObject({ reason: 'line 3' })
  expect(reader.text()).not.toContain(key)
})

test('tells once when the store goes, whatever rules came before', async () => {
  const store = { run: () => Promise.reject(new Error('gone')) }
  const { port, service, take } = await startAdmin({ store })
  const reader = await read(port)
  service.replace(service.rules.rules, 'test')
  await until('the store to be given up', async () => {
    await take('a')
    return reader.seen.find(({ event }) => event === 'store')
  })
  service.tell({ type: 'mode', limit: 'busy', mode: { mode: 'off', enforcePercent: 100 } })
  await reader.next('mode')
  const told = reader.seen.filter(({ event }) => event === 'store')
  expect(told.map(({ data }) => [data.state, data.error])).toEqual([['down', 'gone']])
})

test('sums decisions up once a second, and shows a few denials, masked', async () => {
  const { port, take, clock } = await startAdmin()
  const reader = await read(port)
  for (let i = 0; i < 50; i++) await take('secret-key-1')
  clock.advance(1_000)
  const { data } = await reader.next('decisions')
  expect(data.limits).toEqual({
    'per-key': { allowed: 10, denied: 40, observed: 0, degraded: 0 },
    watched: { allowed: 2, denied: 0, observed: 48, degraded: 0 },
    busy: { allowed: 50, denied: 0, observed: 0, degraded: 0 },
  })
  const denials = reader.seen.filter(({ event }) => event === 'denial')
  expect(denials).toHaveLength(10)
  expect(denials[0]).not.toHaveProperty('id')
  expect(denials[0]?.data).toMatchObject({ limit: 'per-key', keys: { 'per-key': expect.stringMatching(/^secr…/) } })
  await take('secret-key-1')
  clock.advance(1_000)
  await until('the second second', () => reader.seen.filter(({ event }) => event === 'decisions')[1])
  expect(reader.seen.filter(({ event }) => event === 'denial')).toHaveLength(11)
})

function change({ service }: AdminRig, percent: number): void {
  service.tell({ type: 'mode', limit: 'busy', mode: { mode: 'observe', enforcePercent: percent } })
}

function percents({ seen }: Reader): number[] {
  return seen.filter(({ event }) => event === 'mode').map(({ data }) => data.mode.enforcePercent)
}

test('a reader that comes back gets what it missed, each once and in order', async () => {
  const rig = await startAdmin()
  const first = await read(rig.port)
  for (const percent of [1, 2]) change(rig, percent)
  const last = await until('the second', () => first.seen.filter(({ event }) => event === 'mode')[1])
  first.leave()
  for (const percent of [3, 4, 5]) change(rig, percent)
  const second = await read(rig.port, last.id)
  change(rig, 6)
  await until('the last', () => percents(second).includes(6) || undefined)
  expect(percents(second)).toEqual([3, 4, 5, 6])
  expect(second.seen.some(({ event }) => event === 'gap')).toBe(false)
})

test('says that there is a gap when what was missed is no longer known', async () => {
  const rig = await startAdmin()
  const first = await read(rig.port)
  change(rig, 1)
  const { id } = await first.next('mode')
  first.leave()
  for (let i = 0; i < 1_200; i++) change(rig, i % 100)
  const late = await read(rig.port, id)
  await late.next('gap')
  await until('all that is kept', () => percents(late).length === 1_000 || undefined)
  for (const other of ['another-7', `${id}9999`, 'nonsense', '-1']) await (await read(rig.port, other)).next('gap')
})

test('drops a reader that does not read, and goes on with the others', async () => {
  const rig = await startAdmin()
  const gone = new Promise((resolve) => rig.server.once('connection', (socket) => socket.once('close', resolve)))
  const slow = connect(rig.port, '127.0.0.1')
  onTestFinished(() => void slow.destroy())
  slow.on('error', () => {})
  slow.write(`GET /admin/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${READ}\r\n\r\n`)
  await once(slow, 'readable')
  let dropped = false
  void gone.then(() => {
    dropped = true
  })
  const reason = 'x'.repeat(100_000)
  let sent = 0
  await until('it to be dropped', () => {
    // Well above what the kernel keeps for both ends.
    for (let i = 0; i < 20 && sent < 1_000; i++, sent++)
      rig.service.tell({ type: 'rules-refused', origin: 'test', reason })
    return dropped || undefined
  })
  const other = await read(rig.port)
  change(rig, 7)
  await other.next('mode')
})

test('says that it is still there when nothing happens', async () => {
  const { port, clock } = await startAdmin()
  const reader = await read(port)
  clock.advance(15_000)
  await until('a heartbeat', () => reader.text().includes(': still here\n\n') || undefined)
})

test('has places for fifty readers, and gets those back that leave', async () => {
  const { port, ask } = await startAdmin()
  const readers = await Promise.all(Array.from({ length: 50 }, () => read(port)))
  const full = await ask('GET', '/admin/v1/events')
  expect([full.status, full.json.code]).toEqual([503, 'too_many_readers'])
  readers[0]?.leave()
  await until('a place', async () => (await ask('HEAD', '/admin/v1/events')).status === 200 || undefined)
})

test('ends its streams when it is closed', async () => {
  const { port, admin } = await startAdmin()
  const req = get({ port, path: '/admin/v1/events', headers: { authorization: `Bearer ${READ}` } })
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  admin.close()
  await once(res.resume(), 'end')
})
