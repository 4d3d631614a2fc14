import { expect, test } from 'vitest'
import { KeyHash } from './key-hash.ts'

test('a key that is being asked for keeps its hash while ten thousand others come', async () => {
  const hash = new KeyHash('secret')
  await hash.hold('user')
  const known = hash.of('user')
  expect(known).not.toBe('')
  for (let i = 0; i < 10_001; i++) {
    await hash.hold(`other ${i}`)
    hash.letGo(`other ${i}`)
  }
  expect(hash.of('other 0')).toBe('')
  expect(hash.of('user')).toBe(known)
})
