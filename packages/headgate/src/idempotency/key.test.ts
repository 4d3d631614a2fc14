import { expect, test } from 'vitest'
import { parseKey } from './key.ts'

const uuid = '8e03978e-40d5-43dd-bc93-6894a57f9324'

test.each([
  [uuid, uuid],
  [`"${uuid}"`, uuid],
  [` "${uuid}" `, uuid],
  ['"a \\"b\\" \\\\c"', 'a "b" \\c'],
  ['"with space, comma; and more"', 'with space, comma; and more'],
  ['"key";version=1', 'key'],
  ['YWJj+/==', 'YWJj+/=='],
  ['order:42', 'order:42'],
  ['x'.repeat(255), 'x'.repeat(255)],
  [`"${'x'.repeat(255)}"`, 'x'.repeat(255)],
])('reads %s', (field, key) => {
  expect(parseKey(field)).toBe(key)
})

test.each([
  ['nothing', ''],
  ['an empty string', '""'],
  ['an open string', '"abc'],
  ['text after the string', '"abc"def'],
  ['an escape that does not exist', '"a\\bc"'],
  ['two fields on one line', '"a", "b"'],
  ['two tokens', 'a, b'],
  ['a space', 'a b'],
  ['other letters', '"grüße"'],
  ['256 characters', 'x'.repeat(256)],
  ['256 characters in quotes', `"${'x'.repeat(256)}"`],
])('refuses %s', (_, field) => {
  expect(parseKey(field)).toBe(undefined)
})
