import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { type AskOptions, startAdmin, WRITE } from '../../test/admin.ts'

const good = { limit: 'per-key', key: 'k1', to: '5/s', forMs: 1_000 }
const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`

const cases: readonly [
  what: string,
  method: string,
  path: string,
  options: AskOptions,
  status: number,
  code: string,
][] = [
  ['an unknown path', 'GET', '/admin/v1/nothing', {}, 404, 'not_found'],
  ['no path at all', 'GET', '/', {}, 404, 'not_found'],
  ['a path with dots', 'GET', '/admin/v1/../../etc/passwd', {}, 404, 'not_found'],
  ['a full URL for a path', 'GET', 'http://elsewhere/admin/v1/limits', {}, 404, 'not_found'],
  ['a wrong method', 'PATCH', '/admin/v1/rules', {}, 405, 'method_not_allowed'],
  ['a wrong method for a probe', 'POST', '/healthz', {}, 405, 'method_not_allowed'],
  ['an unknown limit', 'GET', '/admin/v1/keys/per-kye/k1', {}, 404, 'limit_unknown'],
  ['a limit of the language', 'GET', '/admin/v1/keys/__proto__/k1', {}, 404, 'limit_unknown'],
  ['broken percent-encoding', 'GET', '/admin/v1/keys/per-key/%E0%A4%A', {}, 400, 'bad_path'],
  ['percent-encoding that is no UTF-8', 'GET', '/admin/v1/keys/per-key/%FF', {}, 400, 'bad_path'],
  ['an empty key', 'GET', '/admin/v1/keys/per-key/', {}, 400, 'bad_key'],
  ['no key', 'GET', '/admin/v1/keys/per-key', {}, 400, 'bad_key'],
  ['too many parts', 'DELETE', '/admin/v1/keys/per-key/a/b', {}, 400, 'bad_key'],
  ['too few parts', 'GET', '/admin/v1/keys/exports/a', {}, 400, 'bad_key'],
  ['a count that is none', 'GET', '/admin/v1/top?n=many', {}, 400, 'bad_query'],
  ['a count that is too large', 'GET', '/admin/v1/audit?n=1000000', {}, 400, 'bad_query'],
  ['the top of an unknown limit', 'GET', '/admin/v1/top?limit=x', {}, 404, 'limit_unknown'],
  ['an unknown id', 'DELETE', '/admin/v1/blocks/x', {}, 404, 'id_unknown'],
  ['no body', 'POST', '/admin/v1/blocks', {}, 400, 'bad_body'],
  ['half a body of JSON', 'POST', '/admin/v1/blocks', { body: '{"limit":' }, 400, 'bad_body'],
  ['JSON deeper than any stack', 'POST', '/admin/v1/blocks', { body: deep.slice(70_000, 130_000) }, 400, 'bad_fields'],
  ['a list', 'POST', '/admin/v1/blocks', { body: [good] }, 400, 'bad_fields'],
  ['nothing in JSON', 'POST', '/admin/v1/blocks', { body: 'null' }, 400, 'bad_fields'],
  ['what is no UTF-8', 'POST', '/admin/v1/blocks', { body: Buffer.from([0x22, 0xff, 0x22]) }, 400, 'bad_body'],
  ['a body too large', 'POST', '/admin/v1/blocks', { body: `"${'x'.repeat(70_000)}"` }, 413, 'body_too_large'],
  [
    'a form',
    'POST',
    '/admin/v1/blocks',
    { body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    415,
    'media_type',
  ],
  [
    'a compressed body',
    'POST',
    '/admin/v1/blocks',
    { body: 'x', headers: { 'content-encoding': 'gzip' } },
    415,
    'media_type',
  ],
  ['an unknown field', 'POST', '/admin/v1/overrides', { body: { ...good, forms: 1 } }, 400, 'bad_fields'],
  [
    'a field of the language',
    'POST',
    '/admin/v1/blocks',
    { body: '{"__proto__":{"limit":"per-key"}}' },
    400,
    'bad_fields',
  ],
  ['a missing field', 'POST', '/admin/v1/overrides', { body: { limit: 'per-key', key: 'k1' } }, 400, 'bad_fields'],
  [
    'a time that is none',
    'POST',
    '/admin/v1/blocks',
    { body: { limit: 'per-key', key: 'k1', forMs: '1h' } },
    400,
    'bad_fields',
  ],
  [
    'a time too long',
    'POST',
    '/admin/v1/blocks',
    { body: { limit: 'per-key', key: 'k1', forMs: 1e15 } },
    400,
    'bad_fields',
  ],
  [
    'a time of nothing',
    'POST',
    '/admin/v1/blocks',
    { body: { limit: 'per-key', key: 'k1', forMs: 0 } },
    400,
    'bad_fields',
  ],
  [
    'a key that is none',
    'POST',
    '/admin/v1/blocks',
    { body: { limit: 'per-key', key: { a: 1 }, forMs: 1 } },
    400,
    'bad_fields',
  ],
  [
    'a key with an empty part',
    'POST',
    '/admin/v1/blocks',
    { body: { limit: 'exports', key: ['a', ''], forMs: 1 } },
    400,
    'bad_fields',
  ],
  [
    'a block of an unknown limit',
    'POST',
    '/admin/v1/blocks',
    { body: { limit: 'x', key: 'k1', forMs: 1 } },
    404,
    'limit_unknown',
  ],
  ['a limit that is none', 'POST', '/admin/v1/overrides', { body: { ...good, to: '5/mni' } }, 400, 'bad_fields'],
  ['slots for a rate', 'POST', '/admin/v1/overrides', { body: { ...good, to: { atOnce: 2 } } }, 400, 'bad_fields'],
  ['an unknown mode', 'PUT', '/admin/v1/limits/per-key/mode', { body: { mode: 'on' } }, 400, 'bad_fields'],
  [
    'more than all',
    'PUT',
    '/admin/v1/limits/per-key/mode',
    { body: { mode: 'observe', enforcePercent: 101 } },
    400,
    'bad_fields',
  ],
  ['the mode of an unknown limit', 'PUT', '/admin/v1/limits/x/mode', { body: { mode: 'off' } }, 404, 'limit_unknown'],
  ['rules that are no YAML', 'PUT', '/admin/v1/rules', { body: 'limits: [\n' }, 422, 'rules_invalid'],
  ['rules that are nothing', 'PUT', '/admin/v1/rules', { body: '' }, 422, 'rules_invalid'],
  ['rules that are too deep', 'PUT', '/admin/v1/rules', { body: deep }, 422, 'rules_invalid'],
  ['rules that are too large', 'PUT', '/admin/v1/rules', { body: `#${'x'.repeat(1_100_000)}` }, 413, 'body_too_large'],
  ['rules that read files', 'PUT', '/admin/v1/rules', { body: 'include: /etc/passwd' }, 422, 'rules_invalid'],
  [
    'rules as a picture',
    'PUT',
    '/admin/v1/rules',
    { body: 'x', headers: { 'content-type': 'image/png' } },
    415,
    'media_type',
  ],
]

describe('is told what is wrong, and nothing is changed by', () => {
  test.each(cases)('%s', async (_, method, path, options, status, code) => {
    const { ask, lines, errors, service } = await startAdmin()
    const answer = await ask(method, path, options)
    expect([answer.status, answer.json?.code]).toEqual([status, code])
    expect(answer.headers['content-type']).toBe('application/problem+json')
    expect(answer.json).toMatchObject({
      type: 'about:blank',
      title: expect.any(String),
      status,
      detail: expect.any(String),
    })
    expect([lines, errors, service.rules.generation, service.blocks, service.overrides]).toEqual([[], [], 1, [], []])
    expect((await ask('GET', '/healthz')).status).toBe(200)
  })
})

test('near misses are suggested', async () => {
  const { ask } = await startAdmin()
  expect((await ask('GET', '/admin/v1/keys/per-kye/k1')).json.detail).toContain('did you mean "per-key"?')
  const { json } = await ask('POST', '/admin/v1/overrides', { body: { ...good, forms: 1 } })
  expect(json.fields).toEqual([{ field: 'forms', reason: 'unknown field; did you mean "forMs"?' }])
  expect((await ask('POST', '/admin/v1/overrides', { body: { ...good, to: '5/mni' } })).json.detail).toContain(
    'did you mean',
  )
})

test('what it should not have done is a plain 500, and told to whoever keeps the log', async () => {
  const { ask, errors } = await startAdmin({
    reload: () => Promise.reject(new Error('password is hunter2')),
  })
  const { status, text } = await ask('POST', '/admin/v1/reload')
  expect(status).toBe(500)
  expect(text).not.toContain('hunter2')
  expect(errors).toHaveLength(1)
})

test('a caller that leaves in the middle of its body harms nobody', async () => {
  const { ask, port, errors, server } = await startAdmin()
  const head = `POST /admin/v1/blocks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${WRITE}\r\nContent-Length: 100\r\n\r\n`
  const closed = new Promise((resolve) => server.once('connection', (socket) => socket.once('close', resolve)))
  const asked = once(server, 'request')
  const socket = connect(port, '127.0.0.1', () => socket.write(`${head}{"limit"`))
  await asked
  socket.resetAndDestroy()
  await closed
  expect((await ask('GET', '/admin/v1/blocks')).json.total).toBe(0)
  expect(errors).toEqual([])
})
