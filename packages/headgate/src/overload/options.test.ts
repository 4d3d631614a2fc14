import { HeadgateError } from 'headgate'
import { aimd, createOverload, fixed, gradient2, vegas } from 'headgate/overload'
import { expect, test } from 'vitest'

const wrong: Record<string, [code: string, make: () => unknown]> = {
  'a name that nobody reads': ['HG_OPTION_UNKNOWN', () => createOverload({ limit: 5 } as never)],
  'a mode that is none': ['HG_OPTION_INVALID', () => createOverload({ mode: 'on' as never })],
  'a mode of concurrency that is none': ['HG_OPTION_INVALID', () => createOverload({ concurrencyMode: 'on' as never })],
  'a limit of nothing': ['HG_OPTION_INVALID', () => createOverload({ concurrency: 0 })],
  'half a limit': ['HG_OPTION_INVALID', () => fixed(1.5)],
  'a limit that is none': ['HG_OPTION_INVALID', () => createOverload({ concurrency: {} as never })],
  'a clock that is none': ['HG_OPTION_INVALID', () => createOverload({ clock: {} as never })],
  'a hook that is none': ['HG_OPTION_INVALID', () => createOverload({ onShed: 1 as never })],
  'a queue of no size': ['HG_OPTION_INVALID', () => createOverload({ queue: { size: 0 } })],
  'a queue that is not short': ['HG_OPTION_INVALID', () => createOverload({ queue: { size: 10_001 } })],
  'a target above the interval': ['HG_OPTION_INVALID', () => createOverload({ queue: { targetMs: 200 } })],
  'an unknown option of the queue': ['HG_OPTION_UNKNOWN', () => createOverload({ queue: { length: 5 } as never })],
  'a reserve for low work, which nothing is below': [
    'HG_OPTION_INVALID',
    () => createOverload({ reserve: { low: 0.1 } }),
  ],
  'a reserve of all there is': ['HG_OPTION_INVALID', () => createOverload({ reserve: { critical: 0.5, high: 0.5 } })],
  'a reserve for nobody known': ['HG_OPTION_UNKNOWN', () => createOverload({ reserve: { urgent: 0.1 } as never })],
  'a minimum above the maximum': ['HG_OPTION_INVALID', () => gradient2({ min: 30, max: 20 })],
  'an initial limit out of bounds': ['HG_OPTION_INVALID', () => vegas({ initial: 2000 })],
  'no tolerance': ['HG_OPTION_INVALID', () => gradient2({ tolerance: 0.9 })],
  'a window of no time': ['HG_OPTION_INVALID', () => vegas({ windowMs: 0 })],
  'a backoff that is none': ['HG_OPTION_INVALID', () => aimd({ backoff: 1 })],
  'an unknown option of an estimate': ['HG_OPTION_UNKNOWN', () => aimd({ timeout: 5 } as never)],
  'an unknown option to tune': ['HG_OPTION_UNKNOWN', () => createOverload().tune({ reserve: {} } as never)],
  'a mode to tune that is none': [
    'HG_OPTION_INVALID',
    () => createOverload().tune({ concurrency: { mode: 'x' as never } }),
  ],
  'bounds to tune that cross': ['HG_OPTION_INVALID', () => createOverload().tune({ concurrency: { min: 9, max: 8 } })],
}

test.each(Object.entries(wrong))('refuses %s', (_, [code, make]) => {
  expect(make).toThrow(HeadgateError)
  expect(make).toThrow(code)
})

test('what is refused changes nothing', () => {
  const overload = createOverload({ concurrency: 5, utilisation: false })
  expect(() => overload.tune({ mode: 'off', concurrency: { max: 1 }, queue: { size: 0 } })).toThrow('HG_OPTION_INVALID')
  expect(overload.state().limit).toBe(5)
})

test('an undefined option is an absent one', () => {
  const overload = createOverload({ concurrency: 5, mode: undefined, queue: undefined, reserve: undefined } as never)
  overload.tune({ mode: undefined, concurrency: { max: undefined, mode: undefined } } as never)
  expect(overload.state().limit).toBe(5)
  overload.close()
})
