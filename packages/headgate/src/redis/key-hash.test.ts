import { expect, test } from 'vitest'
import { KeyHash } from './key-hash.ts'

test('a key that is being asked for keeps its hash while ten thousand others come', async () => {
  const hash = new KeyHash('secret')
  await hash.learn('user')
  const known = hash.of('user')
  await Promise.all(Array.from({ length: 10_000 }, (_, i) => hash.learn(`other ${i}`)))
  expect(hash.of('user')).toBe(known)
  expect(hash.knows('user')).toBe(true)
})
