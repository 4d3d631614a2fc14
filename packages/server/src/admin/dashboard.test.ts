import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type AdminRig, startAdmin } from '../../test/admin.ts'
import { dashboard } from './dashboard.ts'

const files = {
  'index.html': '<!doctype html>page',
  'dashboard-0123456789ab.js': 'script()',
  'dashboard-0123456789ab.css': 'p {}',
  'licenses.txt': 'not served',
}

function folder(): string {
  const path = `${mkdtempSync(join(tmpdir(), 'headgate-'))}/`
  onTestFinished(() => rmSync(path, { recursive: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(`${path}${name}`, text)
  return path
}

function start(): Promise<AdminRig> {
  return startAdmin({ otherwise: dashboard(folder()) })
}

test('the page is open, asks for nothing but our own files, and cannot be framed', async () => {
  const { ask } = await start()
  const { status, text, headers } = await ask('GET', '/', { token: '' })
  expect([status, text]).toEqual([200, files['index.html']])
  const policy = String(headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
  for (const part of ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]) expect(policy).toContain(part)
  expect(policy).not.toMatch(/unsafe|https?:|\*/)
  expect(headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  })
})

test('files whose names have a hash are kept for good, packed for those who ask', async () => {
  const { ask, url } = await start()
  const plain = await ask('GET', '/assets/dashboard-0123456789ab.js', { token: '' })
  expect(plain.text).toBe('script()')
  expect(plain.headers).toMatchObject({
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'Accept-Encoding',
  })
  expect(plain.headers).not.toHaveProperty('content-encoding')
  const head = await ask('HEAD', '/assets/dashboard-0123456789ab.js', {
    token: '',
    headers: { 'accept-encoding': 'gzip, br' },
  })
  expect(head.headers).toMatchObject({ 'content-encoding': 'gzip', 'content-type': 'text/javascript; charset=utf-8' })
  expect(head.text).toBe('')
  const packed = await fetch(`${url}/assets/dashboard-0123456789ab.css?v=1`)
  expect(packed.headers.get('content-encoding')).toBe('gzip')
  expect(await packed.text()).toBe('p {}')
})

test('no path leads out of the folder, or to what is not meant to be served', async () => {
  const { ask } = await start()
  const paths = [
    '/assets/licenses.txt',
    '/index.html',
    '/assets/',
    '/assets',
    '/favicon.ico',
    '//',
    '/./',
    '/%2e%2e/index.html',
  ]
  const out = [
    '../index.html',
    '..%2f..%2fpackage.json',
    '....//index.html',
    '..\\index.html',
    '%00',
    'dashboard-0123456789ab.js%00',
  ]
  for (const path of [...paths, ...out.map((each) => `/assets/${each}`), '/../../../etc/passwd', 'http://x/'])
    expect((await ask('GET', path, { token: '' })).status, path).toBe(404)
  const put = await ask('PUT', '/', { token: '', body: 'x' })
  expect([put.status, put.headers.allow]).toEqual([405, 'GET, HEAD'])
})

test('who asks too much is refused here too', async () => {
  const { ask } = await startAdmin({ otherwise: dashboard(folder()), limit: '2/h' })
  const asked = [
    await ask('GET', '/', { token: '' }),
    await ask('GET', '/', { token: '' }),
    await ask('GET', '/', { token: '' }),
  ]
  expect(asked.map(({ status }) => status)).toEqual([200, 200, 429])
})

test('a service without it says so, and does all else', async () => {
  const { ask } = await startAdmin({ otherwise: dashboard('/nowhere/') })
  expect(await ask('GET', '/', { token: '' })).toMatchObject({
    status: 404,
    text: expect.stringContaining('npm run build'),
  })
  expect((await ask('GET', '/admin/v1/whoami')).json).toEqual({ scope: 'write' })
})
