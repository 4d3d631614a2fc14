import { gzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import type { Caller } from '../rules/caller.ts'
import { decoded } from './content.ts'

/** How many are unpacked now, and were at most. */
const counted = vi.hoisted(() => ({ now: 0, most: 0 }))

// The real one, watched.
vi.mock('node:zlib', async (original) => {
  const zlib = await original<typeof import('node:zlib')>()
  const gunzip = (body: Buffer, options: object, done: (...result: unknown[]) => void) => {
    counted.most = Math.max(counted.most, ++counted.now)
    zlib.gunzip(body, options, (...result) => {
      counted.now--
      done(...result)
    })
  }
  return { ...zlib, gunzip }
})

const caller = { incoming: { header: () => 'gzip' } } as unknown as Caller

test('few bodies are unpacked at a time, as each may become a thousand times as large; all get their turn', async () => {
  const bodies = Array.from({ length: 60 }, (_, i) => gzipSync(Buffer.alloc(i % 3 === 0 ? 200_000 : 100_000)))
  const broken = gzipSync('text').subarray(0, 12)
  const all = bodies.flatMap((body) => [body, broken])
  const ended = await Promise.all(
    all.map((body) =>
      decoded(body, caller, 150_000).then(
        ({ length }) => length,
        ({ code }) => code as string,
      ),
    ),
  )
  expect(ended.filter((each) => each === 100_000)).toHaveLength(40)
  expect(ended.filter((each) => each === 'body_too_large')).toHaveLength(20)
  expect(ended.filter((each) => each === 'body_invalid')).toHaveLength(60)
  expect(counted).toEqual({ now: 0, most: 4 })
})
