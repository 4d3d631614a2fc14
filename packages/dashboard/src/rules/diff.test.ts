import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seed } from '../../../headgate/test/random.ts'
import { diffLines, excerpt } from './diff.ts'

const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 }).map((lines) => lines.join('\n'))

test(`what was removed and what is the same make the old text; what was added and what is the same the new one (HEADGATE_SEED=${seed})`, () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after)
      const without = (kind: string) => lines.filter((line) => line.kind !== kind).map((line) => line.text)
      expect(without('added').join('\n')).toBe(before)
      expect(without('removed').join('\n')).toBe(after)
      const numbers = lines.filter(({ kind }) => kind !== 'removed').map(({ line }) => line)
      expect(numbers).toEqual(numbers.map((_, i) => i + 1))
    }),
    { seed },
  )
})

test('one line that changed is one that went and one that came, with its neighbours', () => {
  const before = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`).join('\n')
  const shown = excerpt(diffLines(before, before.replace('line 9', 'other')), 1)
  expect(shown.map((line) => line && `${line.kind} ${line.line} ${line.text}`)).toEqual([
    'same 8 line 8',
    'removed 9 line 9',
    'added 9 other',
    'same 10 line 10',
  ])
  expect(excerpt(diffLines(before, before))).toEqual([])
})
