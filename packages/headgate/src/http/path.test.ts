import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { normalPath } from './path.ts'

describe('one resource has one path', () => {
  test.each([
    ['a path stays', '/users/17/photo.jpg', '/users/17/photo.jpg'],
    ['the root stays', '/', '/'],
    ['nothing is the root', '', '/'],
    ['a server as a whole stays', '*', '*'],
    ['queries are dropped', '/login?user=/../x', '/login'],
    ['fragments are dropped', '/login#/a?b', '/login'],
    ['a query alone is the root', '?a=/b', '/'],
    ['scheme and host are dropped', 'http://example.com:8080/login?a', '/login'],
    ['also in capitals', 'HTTPS://Example.com/Login', '/login'],
    ['a host alone is the root', 'http://example.com', '/'],
    ['a host with a query is the root', 'http://example.com?a=/b', '/'],
    ['a path may look like a URL', '/http://example.com/a', '/http:/example.com/a'],
    ['a path that starts with two slashes has no host', '//example.com/login', '/example.com/login'],
    ['a path without a slash gets one', 'login', '/login'],
    ['case does not count', '/LogIn', '/login'],
    ['repeated slashes are one', '//a///b', '/a/b'],
    ['last slashes are dropped', '/login//', '/login'],
    ['backslashes are slashes', '\\a\\..\\login', '/login'],
    ['one dot is here', '/./a/./login/.', '/a/login'],
    ['two dots are above', '/a/../b/c/../../login', '/login'],
    ['nothing is above the root', '/../../login/..', '/'],
    ['two slashes are one to two dots', '/a//../login', '/login'],
    ['three dots are a name', '/.../..a/.b', '/.../..a/.b'],
    ['dots may be escaped', '/a/%2e%2E/.%2e/%2E/login', '/login'],
    ['letters may be escaped', '/%6C%4fg%69n', '/login'],
    ['- _ ~ may be escaped', '/%2d%5F%7e', '/-_~'],
    ['escaped slashes are part of a name', '/a%2Fb/..%2f', '/a%2fb/..%2f'],
    ['other escapes have one spelling', '/%3A%3a%C3%9C', '/%3a%3a%c3%9c'],
    ['what is reserved stays', "/a:b@c!$&'()*+,;=[]", "/a:b@c!$&'()*+,;=[]"],
    ['what must be escaped is', '/a b"<>`{}|^\x00\x7f', '/a%20b%22%3c%3e%60%7b%7d%7c%5e%00%7f'],
    ['letters beyond ASCII are escaped', '/ü/😀', '/%c3%bc/%f0%9f%98%80'],
    ['half a character is the replacement', '/\ud83d', '/%ef%bf%bd'],
    ['escapes are read once', '/%252e%252e/%2561', '/%252e%252e/%2561'],
    ['broken escapes stay', '/%/%z/%4/100%', '/%/%z/%4/100%'],
    ['broken escapes do not become whole', '/%%36%31/%6%31', '/%%361/%6%31'],
  ])('%s: %j', (_, path, normal) => {
    expect(normalPath(path)).toBe(normal)
    expect(normalPath(normal)).toBe(normal)
  })

  test('case counts if it should', () => {
    expect(normalPath('/API/%55sers/%2F%c3', { caseSensitive: true })).toBe('/API/Users/%2f%c3')
    expect(normalPath('/API/Users', { caseSensitive: true })).toBe('/API/Users')
    expect(normalPath('/API//Users', { caseSensitive: false })).toBe('/api/users')
  })
})

const escaped = (code: number) => `%${code.toString(16).padStart(2, '0')}`
const part = fc.oneof(
  fc.constantFrom(
    '/',
    '//',
    '.',
    '..',
    '/../',
    '/./',
    '\\',
    '%',
    '%2e',
    '%2E',
    '%2f',
    '%25',
    '%4',
    '%36',
    '*',
    ':',
    '?',
    '#',
    'http://h',
  ),
  fc.nat(255).map(escaped),
  fc.string({ unit: 'binary', maxLength: 3 }),
  fc.string({ maxLength: 3 }),
)
const paths = fc.array(part, { maxLength: 15 }).map((parts) => parts.join(''))

test('a normal path stays as it is', () => {
  fc.assert(
    fc.property(paths, fc.boolean(), (path, caseSensitive) => {
      const normal = normalPath(path, { caseSensitive })
      expect(normalPath(normal, { caseSensitive })).toBe(normal)
      expect(normalPath(normal)).toBe(normalPath(path))
    }),
    runs(3000),
  )
})

test('a normal path is ASCII from the root, without dot segments, empty names, queries and capitals', () => {
  fc.assert(
    fc.property(paths, (path) => {
      expect(normalPath(path)).toMatch(/^(?:\*|\/|(?:\/(?!\.{1,2}(?:\/|$))[^/\\?#A-Z]+)+)$/)
      expect(normalPath(path)).toMatch(/^[!-~]+$/)
    }),
    runs(1000),
  )
})

test('it is what the URL parser finds, but for slashes at the end, case, and escapes that need not be', () => {
  /** The parser drops tabs, line breaks and what is blank at the end, which no request has; `..` after two slashes is one of them
   *  to it; and a broken escape may become whole when another is read. */
  const isApart = (path: string) =>
    /[\t\n\r?#]|[/\\]{2}|%[\da-f]?%/i.test(path) || path.charCodeAt(path.length - 1) <= 0x20
  const unescaped = (raw: string) =>
    /%(?:2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)/i.test(raw) ? decodeURIComponent(raw) : raw
  const simple = ({ pathname }: URL) =>
    pathname
      .replace(/[|^]/g, (char) => escaped(char.charCodeAt(0)))
      .replace(/%[\da-f]{2}/gi, unescaped)
      .replace(/(.)\/$/, '$1')
      .toLowerCase()
  fc.assert(
    fc.property(paths, (path) => {
      fc.pre(!isApart(`/${path}`))
      const expected = simple(new URL(`http://example.com/${path}`))
      expect(normalPath(`/${path}`)).toBe(expected)
      expect(normalPath(`http://example.com/${path}`)).toBe(expected)
    }),
    runs(2000),
  )
})

test.each(['/', '.', '/.', '/..', '/a/..', '%', '%2', '%2e', '%%36', 'a://', '\\', 'ü', '\ud800', ' ', '?', '-', '/a'])(
  '256 KiB of %j takes no longer than it must',
  (part) => {
    // Time that grew with the square of the length would not end.
    const path = part.repeat((1 << 18) / part.length)
    expect(normalPath(path).length).toBeLessThanOrEqual(9 * path.length + 1)
    expect(normalPath(`/a/${path}|`).length).toBeLessThanOrEqual(9 * path.length + 6)
  },
)
