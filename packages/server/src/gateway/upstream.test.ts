import { expect, test } from 'vitest'
import { Protection } from './protection.ts'
import type { UpstreamOptions } from './types.ts'
import { Upstream } from './upstream.ts'

function timesOf(times: { headersTimeoutMs?: number; bodyTimeoutMs?: number; idleTimeoutMs?: number }) {
  const options: UpstreamOptions = { name: 'only', urls: [], ...times }
  const { headersTimeoutMs, bodyTimeoutMs, idleTimeoutMs } = new Upstream(options, [], Protection.of(options))
  return [headersTimeoutMs, bodyTimeoutMs, idleTimeoutMs]
}

test('what an upstream may take is never cut short by the idle time, unless that is asked for', () => {
  expect(timesOf({})).toEqual([60_000, 60_000, 120_000])
  expect(timesOf({ headersTimeoutMs: 300_000 })).toEqual([300_000, 60_000, 300_000])
  expect(timesOf({ bodyTimeoutMs: 0 })).toEqual([60_000, Infinity, Infinity])
  expect(timesOf({ bodyTimeoutMs: 0, idleTimeoutMs: 5_000 })).toEqual([60_000, Infinity, 5_000])
  expect(timesOf({ idleTimeoutMs: 0 })).toEqual([60_000, 60_000, Infinity])
})
