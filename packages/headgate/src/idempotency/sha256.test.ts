import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { hashOf, Sha256 } from './sha256.ts'

const reference = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const random = randomBelow(seed)
const randomBytes = (length: number) => Uint8Array.from({ length }, () => random(256))

test(`hashes as every other SHA-256 does, at every length around a block (HEADGATE_SEED=${seed})`, () => {
  for (let length = 0; length < 260; length++) {
    const bytes = randomBytes(length)
    expect(new Sha256().update(bytes).digest()).toBe(reference(bytes))
  }
})

test(`hashes the same however the bytes come (HEADGATE_SEED=${seed})`, () => {
  const bytes = randomBytes(100_000)
  const hash = new Sha256()
  for (let at = 0, step = 1; at < bytes.length; at += step, step = (step * 7) % 1009) {
    hash.update(bytes.subarray(at, at + step))
  }
  expect(hash.digest()).toBe(reference(bytes))
})

test('tells texts apart that join to the same', () => {
  expect(hashOf('a', 'bc')).not.toBe(hashOf('ab', 'c'))
  expect(new Sha256().update('grüße').digest()).toBe(reference(Buffer.from('grüße')))
})
