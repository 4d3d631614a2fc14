import { HeadgateError } from 'headgate'
import { idempotency, memoryReplies, redisReplies } from 'headgate/idempotency'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'

const wrong: Record<string, [code: string, make: () => unknown]> = {
  'a name that nobody reads': ['HG_OPTION_UNKNOWN', () => idempotency({ ttl: 5 } as never)],
  'a time that is none': ['HG_OPTION_INVALID', () => idempotency({ ttlMs: Number.NaN })],
  'a lock of no time': ['HG_OPTION_INVALID', () => idempotency({ lockMs: 0 })],
  'a size below zero': ['HG_OPTION_INVALID', () => idempotency({ maxBodyBytes: -1 })],
  'a choice that is none': ['HG_OPTION_INVALID', () => idempotency({ onStoreError: 'allow' as never })],
  'methods that are no list': ['HG_OPTION_INVALID', () => idempotency({ methods: 'POST' as never })],
  'a scope that is no function': ['HG_OPTION_INVALID', () => idempotency({ by: 'user' as never })],
  'required that is neither': ['HG_OPTION_INVALID', () => idempotency({ required: 1 as never })],
  'a store that is none': ['HG_OPTION_INVALID', () => idempotency({ store: {} as never })],
  'a clock that nobody reads': [
    'HG_OPTION_CONFLICT',
    () => idempotency({ store: memoryReplies(), clock: fakeClock() }),
  ],
  'memory of no size': ['HG_OPTION_INVALID', () => memoryReplies({ maxBytes: 1 })],
  'an unknown option of memory': ['HG_OPTION_UNKNOWN', () => memoryReplies({ max: 1 } as never)],
  'a client that is none': ['HG_OPTION_INVALID', () => redisReplies({})],
  'no time for Redis': ['HG_OPTION_INVALID', () => redisReplies({ evalsha() {} }, { timeoutMs: 0 })],
  'an unknown option of Redis': ['HG_OPTION_UNKNOWN', () => redisReplies({ evalsha() {} }, { ttlMs: 1 } as never)],
}

test.each(Object.entries(wrong))('refuses %s at the start', (_, [code, make]) => {
  expect(make).toThrow(HeadgateError)
  expect(make).toThrow(code)
})
