import { EventEmitter } from 'node:events'
import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { READ, startAdmin, WRITE } from '../../test/admin.ts'
import { FakeTerminal, headgate } from '../../test/cli.ts'
import { startUpstream } from '../../test/upstream.ts'
import { run } from './index.ts'

const token = { HEADGATE_ADMIN_TOKEN: WRITE }

describe('headgate inspect', () => {
  test('shows what a key has left, in lines or as the admin port tells it', async () => {
    const { url, take } = await startAdmin()
    for (let i = 0; i < 3; i++) await take('sk_live_1')
    const { code, out } = await headgate(['inspect', 'per-key', 'sk_live_1', '--admin', url], token)
    expect(code).toBe(0)
    expect(out).toMatch(
      /^limit {2}per-key\nkey {4}sk_l…\w+\nmode {3}enforce\nstate {2}7 of 10 left, 3 used, window 1 min, all back in 1?\d(\.\d)? s\n$/,
    )
    const { out: text } = await headgate(['inspect', 'per-key', 'sk_live_1', '--admin', url, '--json'], token)
    expect(JSON.parse(text)).toMatchObject({ name: 'per-key', used: 3, remaining: 7 })
  })

  test('takes a word for each part of a key, and none for a shared counter', async () => {
    const { url, take } = await startAdmin()
    await take('k1', '/export/a')
    const { out } = await headgate(['inspect', 'exports', 'k1', '/export/**', '--admin', `${url}/`], token)
    expect(out).toContain('3 of 4 left, 1 used')
    expect((await headgate(['inspect', 'busy', '--admin', url], token)).out).toContain('key    one counter for all\n')
  })

  test('shows every tier, or the one asked for, exceptions and blocks', async () => {
    const { url, ask } = await startAdmin()
    const body = { limit: 'per-key', key: 'k1', forMs: 60_000, reason: 'too \u001b[31mloud' }
    await ask('POST', '/admin/v1/blocks', { body })
    await ask('POST', '/admin/v1/overrides', { body: { ...body, to: '50/min' } })
    const plan = await headgate(['inspect', 'plan', 'k1', '--admin', url], token)
    expect(plan.out).toContain('tier free  5 of 5 left')
    expect(plan.out).toContain('tier pro   50 of 50 left')
    const pro = await headgate(['inspect', 'plan', 'k1', '--tier', 'pro', '--admin', url], token)
    expect(pro.out).not.toContain('tier free')
    const { out } = await headgate(['inspect', 'per-key', 'k1', '--admin', url], token)
    expect(out).toMatch(/override {2}50\/min until \d{4}-.*, by write 127.0.0.1: too/)
    expect(out).toMatch(/block {5}until \d{4}-/)
    expect(out).toContain('refused for ')
    expect(out).not.toContain('\u001b')
  })

  test('says in a line what was wrong, and what helps', async () => {
    const { url } = await startAdmin()
    const wrong = async (args: string[], env = {}) => {
      const { code, out, err } = await headgate([...args, '--admin', url], env)
      expect(out).toBe('')
      expect(err).toMatch(/^headgate: [^\n]+\n$/)
      return { code, err }
    }
    expect((await wrong(['inspect', 'per-kye', 'k1'], token)).err).toContain('did you mean "per-key"?')
    expect((await wrong(['inspect', 'exports', 'k1'], token)).err).toContain('a key of 2 parts')
    expect(await wrong(['inspect', 'busy'])).toMatchObject({ code: 1, err: expect.stringContaining('says 401') })
    const read = { HEADGATE_ADMIN_READ_TOKEN: READ }
    expect((await wrong(['reset', 'busy'], read)).err).toContain('Set HEADGATE_ADMIN_TOKEN.')
    expect(await wrong(['inspect', 'per-key', '..'], token)).toMatchObject({ code: 2 })
    const odd = await wrong(['inspect', 'busy'], { HEADGATE_ADMIN_TOKEN: 'secret\n' })
    expect(odd.code).toBe(2)
    expect(odd.err).not.toContain('secret')
  })

  test('a service that is not there, or another one, is told', async () => {
    const other = await startUpstream()
    const { code, err } = await headgate(['inspect', 'busy', '--admin', other.url], token)
    expect(code).toBe(1)
    expect(err).toContain('this is no answer of an admin port')
    await other.close()
    expect((await headgate(['inspect', 'busy', '--admin', other.url], token)).err).toContain('ECONNREFUSED')
    expect((await headgate(['inspect', 'busy', '--admin', 'nowhere'], token)).code).toBe(2)
  })

  test('hands the token to nobody it is sent to', async () => {
    const seen: unknown[] = []
    const thief = await startUpstream((req, res) => {
      seen.push(req.headers.authorization)
      res.end('{}')
    })
    const sends = await startUpstream((_req, res) => res.writeHead(302, { location: thief.url }).end())
    expect((await headgate(['inspect', 'busy', '--admin', sends.url], token)).code).toBe(1)
    expect(seen).toEqual([])
    await Promise.all([thief.close(), sends.close()])
  })
})

test('headgate reset forgets what a key has used', async () => {
  const { url, take } = await startAdmin()
  await take('k1')
  const { code, out } = await headgate(['reset', 'per-key', 'k1', '--admin', url], token)
  expect([code, out]).toEqual([0, 'per-key: counts and block of k1 are forgotten\n'])
  expect((await headgate(['inspect', 'per-key', 'k1', '--admin', url], token)).out).toContain('10 of 10 left')
  const { out: text } = await headgate(['reset', 'busy', '--json', '--admin', url], token)
  expect(JSON.parse(text)).toEqual({ limit: 'busy', key: [], reset: true })
})

describe('headgate top', () => {
  test('prints the busiest keys once where there is no terminal', async () => {
    const { url, take } = await startAdmin()
    for (let i = 0; i < 12; i++) await take('loud-key')
    await take('quiet-key')
    const { code, out } = await headgate(['top', '--admin', url, '--limit', 'per-key', '--reveal'], token)
    expect(code).toBe(0)
    expect(out.split('\n')).toEqual([
      'limit    key        count  denied  half in 5 min',
      'per-key  loud-key      12       2  ████████████████████',
      'per-key  quiet-key      1       0  ██',
      '',
    ])
  })

  test('masks keys, and tells programs what the admin port tells', async () => {
    const { url, take } = await startAdmin()
    await take('loud-key')
    const { out } = await headgate(['top', '--admin', url], token)
    expect(out).toMatch(/per-key +loud…/)
    expect(out).not.toContain('loud-key')
    const { out: text } = await headgate(['top', '--admin', url, '--json', '-n', '1'], token)
    expect(JSON.parse(text)).toMatchObject({ limits: expect.any(Array), halfLifeMs: 300_000 })
  })

  test('says when there is nothing yet, and refuses a number that is none', async () => {
    const { url } = await startAdmin()
    expect((await headgate(['top', '--admin', url], token)).out).toBe('No decisions yet.\n')
    for (const n of ['0', 'x', '101']) expect((await headgate(['top', '-n', n, '--admin', url], token)).code).toBe(2)
  })

  test('on a terminal stays on a screen of its own, follows its size, and leaves it as it was', async () => {
    const { url, take } = await startAdmin()
    for (const key of ['one', 'two', 'three']) await take(key)
    const [out, signals] = [new FakeTerminal(), new EventEmitter()]
    const ended = run(['top', '--admin', url], token, out, out, signals)
    await until('a frame', () => (out.text.includes('\u001b[J') ? true : undefined))
    expect(out.text.startsWith('\u001b[?1049h\u001b[?25l\u001b[Hlimit')).toBe(true)
    const before = out.text.length
    Object.assign(out, { columns: 10, rows: 3 })
    out.emit('resize')
    const lines = out.text.slice(before).split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[0]).toBe('\u001b[Hlimit    k\u001b[K')
    signals.emit('SIGINT')
    expect(await ended).toBe(0)
    expect(out.text.endsWith('\u001b[?25h\u001b[?1049l')).toBe(true)
    expect([out.listenerCount('resize'), signals.eventNames()]).toEqual([0, []])
  })

  test('on a terminal a service that went away is waited for', async () => {
    const { url, take, server } = await startAdmin()
    await take('one')
    const [out, signals] = [new FakeTerminal(), new EventEmitter()]
    const ended = run(['top', '--admin', url], token, out, out, signals)
    await until('a frame', () => (out.text.includes('\u001b[J') ? true : undefined))
    server.close()
    server.closeAllConnections()
    await until('the outage', () => (out.text.includes('does not answer') ? true : undefined))
    signals.emit('SIGTERM')
    expect(await ended).toBe(0)
  })
})
