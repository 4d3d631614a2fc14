import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hostGlob, normalHost, pathGlob, pathGlobFault, pathGlobHint, textGlob } from './glob.ts'

/** Glob, what it matches, what it does not. */
const paths: [glob: string, yes: string[], no: string[]][] = [
  ['/login', ['/login'], ['/login/x', '/Login', '/', '/loginx']],
  ['/', ['/'], ['/a']],
  ['/*', ['/a', '/.env'], ['/', '/a/b']],
  ['/**', ['/', '/a', '/a/b'], []],
  ['/export/**', ['/export', '/export/a', '/export/a/b'], ['/exports', '/', '/x/export']],
  ['/**/export', ['/export', '/a/export', '/a/b/export'], ['/export/a', '/aexport']],
  ['/a/**/z', ['/a/z', '/a/b/z', '/a/b/z/z'], ['/a', '/z', '/a/b']],
  ['/a/**/m/**/z', ['/a/m/z', '/a/1/m/2/3/z'], ['/a/z', '/a/1/z', '/a/z/m']],
  ['/users/*/posts', ['/users/1/posts'], ['/users/posts', '/users/1/2/posts']],
  ['/v*/x', ['/v1/x', '/v/x'], ['/w1/x']],
  ['/*.json', ['/a.json', '/.json'], ['/ajson', '/a.jsonx', '/a/b.json']],
  ['/a*b*c', ['/abc', '/axbxc', '/abbcc'], ['/ab', '/acb']],
  ['/{v1,v2}/x', ['/v1/x', '/v2/x'], ['/v3/x', '/{v1,v2}/x']],
  ['/user{,s}', ['/user', '/users'], ['/userss']],
  ['/a.b+c', ['/a.b+c'], ['/aXb+c', '/a.bbc']],
  ['/caf%C3%A9', ['/caf%c3%a9'], ['/caf%C3%A9']],
  ['/café', ['/caf%c3%a9'], []],
  ['/%6cogin', ['/login'], []],
]

describe('path globs', () => {
  test.each(paths)('%s', (glob, yes, no) => {
    const matches = pathGlob(glob)
    expect(yes.filter((path) => !matches(path))).toEqual([])
    expect(no.filter((path) => matches(path))).toEqual([])
  })

  test('case counts unless told otherwise', () => {
    expect(pathGlob('/Login')('/login')).toBe(false)
    expect(pathGlob('/Login/**', { caseSensitive: false })('/login/x')).toBe(true)
  })

  test.each([
    ['/a/**b', '** stands alone'],
    ['/{a', 'braces'],
    ['/{a,{b,c}}', 'braces'],
    ['/users/{id}', 'one choice'],
    ['a', 'starts with'],
    ['**', 'starts with'],
    [`/${'{a,b}'.repeat(7)}`, 'more than 64'],
    [`/${'a'.repeat(1000)}`, 'longer than'],
    ['/a b', 'has no'],
  ])('%s is refused', (glob, reason) => {
    expect(pathGlobFault(glob)?.reason).toContain(reason)
  })

  test.each(['/a//b', '/a/', '/a/../b', '/./a', '/users/:id', '/users/[id]'])('%s can equal no path', (glob) => {
    expect(pathGlobFault(glob)).toBeUndefined()
    expect(pathGlobHint(glob)).toBeDefined()
  })

  test('decides as a plain definition of globs does', () => {
    const name = fc.stringMatching(/^[ab]{1,3}$/)
    const path = fc.array(name, { maxLength: 5 }).map((names) => `/${names.join('/')}`)
    const part = fc.oneof(name, fc.constant('**'), fc.stringMatching(/^[ab*]{1,3}$/))
    const glob = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => `/${parts.join('/')}`)
    const isGlob = (text: string) => pathGlobFault(text) === undefined
    fc.assert(
      fc.property(glob.filter(isGlob), path, (text, each) => {
        expect(pathGlob(text)(each)).toBe(slow(text.slice(1).split('/'), each === '/' ? [] : each.slice(1).split('/')))
      }),
      { seed: 1, numRuns: 2000 },
    )
  })

  test('takes no longer for globs and paths made to take long', () => {
    const globs = [`/${'**/a*a*a/'.repeat(60)}b`, `/${'a*'.repeat(400)}b`, `/${'**/'.repeat(300)}b`]
    const long = [`/${'aaaa/'.repeat(2000)}a`, `/${'a'.repeat(16_000)}`]
    for (const glob of globs) for (const path of long) expect(pathGlob(glob)(path)).toBe(false)
  }, 10_000)
})

/** Tries everything. */
function slow(globs: readonly string[], names: readonly string[]): boolean {
  const [glob, ...rest] = globs
  if (glob === undefined) return names.length === 0
  if (glob === '**') return slow(rest, names) || (names.length > 0 && slow(globs, names.slice(1)))
  const [name, ...others] = names
  return name !== undefined && new RegExp(`^${glob.replaceAll('*', '.*')}$`).test(name) && slow(rest, others)
}

const hosts: [glob: string, yes: string[], no: string[]][] = [
  ['api.example.com', ['api.example.com'], ['xapi.example.com', 'apiXexample.com']],
  ['*.Example.com', ['a.example.com', 'a.b.example.com'], ['example.com', 'aexample.com', 'a.example.com.evil.org']],
  ['api-*.example.com', ['api-1.example.com', 'api-.example.com'], ['api-1.x.example.com']],
  ['{a,b}.example.com', ['a.example.com', 'b.example.com'], ['c.example.com']],
  ['*', ['a', 'a.b'], []],
  ['[::1]', ['[::1]'], ['[::2]']],
]

test.each(hosts)('host %s', (glob, yes, no) => {
  const matches = hostGlob(glob)
  expect(yes.filter((host) => !matches(host))).toEqual([])
  expect(no.filter((host) => matches(host))).toEqual([])
})

test('a host has one spelling', () => {
  expect(['API.example.com:8080', 'api.example.com.', 'api.example.com', '[::1]:80'].map(normalHost)).toEqual([
    'api.example.com',
    'api.example.com',
    'api.example.com',
    '[::1]',
  ])
})

test('values of headers: * is any part, alone any value', () => {
  expect(textGlob('*')('')).toBe(true)
  expect(textGlob('Mozilla/*')('Mozilla/5.0')).toBe(true)
  expect(textGlob('a*a')('a')).toBe(false)
  expect(textGlob('a')('A')).toBe(false)
})
