import { createGate, HeadgateError, memory, type Result } from 'headgate'
import { type Fetch, type RemoteOptions, RemoteStore, remote, serveStore, type Transport } from 'headgate/remote'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Handler, listen, serve } from '../../test/remote-server.ts'
import { until } from '../../test/until.ts'
import { ticksOf } from '../clock.ts'
import { compileLimit } from '../limit.ts'

const ticks = ticksOf(undefined)
const counter = { space: 'hg:test', policy: compileLimit('1000/year') }
const take = (key = 'a', more = {}) => ({ ops: [{ verb: 'take' as const, counter, key, cost: 1 }], cost: 1, ...more })

async function handled(handler: Handler, options?: RemoteOptions): Promise<RemoteStore> {
  const { url, close } = await listen(handler)
  const store = remote(url, options)
  onTestFinished(async () => {
    store.close()
    await close()
  })
  return store
}

/** A store asked through here, with a look at every message. */
function watched(look: (body: string) => unknown): { readonly store: RemoteStore; readonly sent: string[] } {
  const answer = serveStore(memory())
  const sent: string[] = []
  const fetch: Fetch = async (_, { body }) => {
    sent.push(body)
    await look(body)
    const reply = await answer(body)
    return { status: 200, text: async () => reply }
  }
  return { store: remote('http://test', { fetch }), sent }
}

const reason = (promise: Promise<unknown>) => promise.then(String, (error: unknown) => error)

describe('questions to a store behind a port', () => {
  test('of one turn go together, in order', async () => {
    const { store, sent } = watched(() => {})
    const gate = createGate({ limit: '3/year', store, onStoreError: 'deny', timeoutMs: 10_000 })
    await store.ready()
    const taken = await Promise.all([1, 2, 3, 4].map(() => gate.take('a')))
    expect(taken.map(({ remaining }) => remaining)).toEqual([2, 1, 0, 0])
    expect(sent.length).toBe(2)
  })

  test('go in few messages at a time, of bounded size', async () => {
    let [flying, most] = [0, 0]
    const { store, sent } = watched(async () => {
      most = Math.max(most, ++flying)
      await new Promise((resolve) => setImmediate(resolve))
      flying--
    })
    const results = await Promise.all(Array.from({ length: 2_000 }, (_, i) => store.run([take(`k${i}`)])))
    expect(results.every(([result]) => result?.ok)).toBe(true)
    expect(most).toBeLessThanOrEqual(4)
    expect(sent.length).toBeLessThan(40)
    const long = 'x'.repeat(60_000)
    await Promise.all(Array.from({ length: 20 }, (_, i) => store.run([take(`${long}${i}`)])))
    expect(Math.max(...sent.map(({ length }) => length))).toBeLessThan(400_000)
  })

  test('are refused at once when too many wait already', async () => {
    const { store } = watched(() => new Promise(() => {}))
    const asked = Array.from({ length: 20_001 }, () => reason(store.run([take()])))
    expect(String(await asked.at(-1))).toContain('20000 decisions are waiting')
    store.close()
    expect(store.kindOf(await asked[0])).toBe('closed')
    expect(store.kindOf(await reason(store.run([take()])))).toBe('closed')
  })

  test('that would come late are not sent', async () => {
    const { store, sent } = watched(() => {})
    await store.ready()
    expect(store.kindOf(await reason(store.run([take()], undefined, ticks.freshUs() - 1)))).toBe('timeout')
    expect(sent.length).toBe(1)
    const [late, early] = [
      reason(store.run([take('late')], undefined, ticks.freshUs() - 1)),
      store.run([take('early')]),
    ]
    expect([store.kindOf(await late), (await early)[0]?.ok]).toEqual(['timeout', true])
    expect(sent[1]).toContain('early')
    expect(sent[1]).not.toContain('late')
  })

  test('that come late are charged nothing', async () => {
    let hold: (() => void) | undefined
    const { store } = watched(() => hold && new Promise<void>((resolve) => (hold = resolve)))
    await store.ready()
    hold = () => {}
    const deadlineUs = ticks.freshUs() + 20_000
    const late = reason(store.run([take()], undefined, deadlineUs))
    await until('the deadline', () => ticks.freshUs() > deadlineUs || undefined)
    hold()
    hold = undefined
    expect(store.kindOf(await late)).toBe('timeout')
    const [look] = await store.run([{ ops: [{ verb: 'peek', counter, key: 'a', cost: 1 }] }])
    expect(look?.outcomes[0]?.remaining).toBe(1000)
  })

  test('are asked once more when the answer was lost, if that charges nothing twice', async () => {
    const serving = await serve(memory())
    let lose = 0
    const fetch: Fetch = async (url, init) => {
      const response = await globalThis.fetch(url, init)
      if (lose-- > 0) throw new TypeError('fetch failed', { cause: new Error('other side closed') })
      return response
    }
    const store = remote(serving.url, { fetch })
    await store.ready()
    lose = 1
    const [bare, named] = [reason(store.run([take()])), store.run([take('a', { id: 'x', idUs: 1e9 })])]
    expect(String(await bare)).toContain('cannot be reached: other side closed')
    expect(await named).toMatchObject([{ ok: true, outcomes: [{ remaining: 998 }] }])
    const [look] = await store.run([{ ops: [{ verb: 'peek', counter, key: 'a', cost: 1 }] }])
    expect(look?.outcomes[0]?.remaining).toBe(998)
    store.close()
    await serving.close()
  })

  test('spoil no others when they make no sense', async () => {
    const { store } = watched(() => {})
    const strange = { space: 'x', policy: compileLimit('10/s').share(2) }
    const asked = [
      store.run([take()]),
      store.run([{ ops: [{ verb: 'take', counter, key: 'a', cost: 0.5 }] }]),
      store.run([{ ops: [{ verb: 'take', counter: strange, key: 'a', cost: 1 }] }]),
      store.run([take()]),
    ]
    const [first, half, foreign, last] = await Promise.allSettled(asked)
    expect([first?.status, last?.status]).toEqual(['fulfilled', 'fulfilled'])
    expect(half).toMatchObject({ reason: { code: 'HG_REMOTE_REFUSED', value: 'invalid' } })
    expect(foreign).toMatchObject({ reason: { code: 'HG_MESSAGE_INVALID' } })
  })
})

describe('a server that', () => {
  const answers: [name: string, kind: string | undefined, words: string, handler: Handler][] = [
    ['wants another token', 'unauthorized', 'refuses the token', (_, res) => res.writeHead(401).end()],
    ['is overloaded', 'http_503', 'status 503', (_, res) => res.writeHead(503).end('busy')],
    ['is none of ours', 'http_404', 'no Headgate server', (_, res) => res.writeHead(404).end('<html>')],
    ['sends elsewhere', 'http_302', 'status 302', (_, res) => res.writeHead(302, { location: '/x' }).end()],
    ['answers with a page', 'protocol', 'no JSON', (_, res) => res.end('<html>')],
    ['answers another question', 'protocol', 'no reply', (_, res) => res.end('{"v":1,"nowUs":1,"results":[7]}')],
    ['speaks a newer version', 'version', 'version 2', (_, res) => res.end('{"v":2,"nowUs":1,"results":[]}')],
    ['breaks off', undefined, 'cannot be reached', (req) => req.socket.destroy()],
  ]
  test.each(answers)('%s is told apart', async (_, kind, words, handler) => {
    const store = await handled(handler)
    const failed = await reason(store.ready())
    expect(failed).toBeInstanceOf(Error)
    expect([store.kindOf(failed), String(failed)]).toEqual([kind, expect.stringContaining(words)])
  })

  test('refuses our version says which one it speaks', async () => {
    const serving = await serve(memory())
    const fetch: Fetch = (url, init) => globalThis.fetch(url, { ...init, body: init.body.replace('"v":1', '"v":7') })
    const store = remote(serving.url, { fetch })
    const failed = await reason(store.ready())
    expect(store.kindOf(failed)).toBe('version')
    expect(String(failed)).toContain('protocol version 7 and is answered by version 1: update the one that answers')
    await serving.close()
  })

  test('never answers is given up after timeoutMs', async () => {
    const store = await handled(() => {}, { timeoutMs: 30 })
    const failed = await reason(store.run([take()]))
    expect([store.kindOf(failed), String(failed)]).toEqual(['timeout', expect.stringContaining('within 30 ms')])
  })

  test('fails is counted by kind, and the gate counts by itself', async () => {
    const store = await handled((_, res) => res.writeHead(503).end())
    const gate = createGate({ limit: '2/year', store, timeoutMs: 10_000 })
    const taken = [await gate.take('a'), await gate.take('a'), await gate.take('a')]
    expect(taken.map(({ ok, degraded }) => [ok, degraded])).toEqual([
      [true, 'local'],
      [true, 'local'],
      [false, 'local'],
    ])
    expect(gate.health().failures).toEqual({ http_503: 3 })
  })
})

describe('remote()', () => {
  test.each([['127.0.0.1:80'], ['ftp://host'], ['http://user:secret@host'], ['http://host/?a=b'], ['']])(
    'refuses the address %s',
    (url) => {
      expect(() => remote(url)).toThrow(HeadgateError)
    },
  )

  test('refuses options that make no sense, and tells no token', () => {
    expect(() => remote('http://host', { timeoutMs: 0 })).toThrow('timeoutMs')
    expect(() => remote('http://host', { tokn: 'x' } as RemoteOptions)).toThrow('did you mean "token"')
    expect(() => remote('http://host', { token: 'a secret' })).toThrow(/token/)
    expect(() => remote('http://host', { token: 'a secret' })).not.toThrow(/a secret/)
  })

  test('asks below the path of the address, with the token', async () => {
    const seen: unknown[] = []
    const fetch: Fetch = async (url, { headers }) => {
      seen.push(url, headers.authorization)
      return { status: 500, text: async () => '' }
    }
    await reason(remote('https://host/limits/', { fetch, token: 't' }).ready())
    expect(seen).toEqual(['https://host/limits/v1/run', 'Bearer t'])
  })

  test('can be told another way to get messages across', async () => {
    const answer = serveStore(memory())
    const transport: Transport = { ask: async (message) => JSON.parse(await answer(JSON.stringify(message))) }
    const results: Result[] = await new RemoteStore(transport, 1_000).run([take()])
    expect(results[0]?.outcomes[0]?.remaining).toBe(999)
  })
})
