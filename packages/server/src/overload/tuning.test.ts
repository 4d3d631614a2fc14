import { memory } from 'headgate'
import type { OverloadTuning } from 'headgate/overload'
import { expect, test } from 'vitest'
import { ends, rulesFile, rulesOf, swapFile } from '../../test/service.ts'
import { parseRules } from '../config/load.ts'
import type { Rules } from '../config/schema.ts'
import { noLog } from '../log.ts'
import { serve } from '../serve.ts'
import { Service } from '../service.ts'

const rulesWith = (overload: string, limits = '{}'): Rules =>
  parseRules(`upstream: http://127.0.0.1:1\nlimits: ${limits}\noverload: { ${overload} }`).rules

function serviceWith(overload: string): Service {
  const service = new Service(rulesWith(overload), memory())
  service.watch({ onEvent: ({ type }) => told.push(type) })
  told.length = 0
  return ends(service, () => service.replace(parseRules('limits: {}').rules, 'end'))
}
const told: string[] = []

test.each([
  ['concurrency: { max: 100 }', { concurrency: { min: 50 } }, 'concurrency: { max: 20 }', { min: 4, max: 20 }],
  ['concurrency: { min: 5 }', { concurrency: { max: 9 } }, 'concurrency: { min: 10 }', { min: 10, max: 1000 }],
] as const)('of %s, tuned by %o, the number gives way to %s', (first, tuning, later, settings) => {
  const service = serviceWith(first)
  expect(service.protection?.state().inFlight).toBe(0)
  service.tuneOverload(tuning)
  service.replace(rulesWith(later, '{ new: { limit: 1/s } }'), 'put')
  expect(service.rules.generation).toBe(2)
  expect(service.rules.limitNames).toEqual(['new'])
  expect(told).toEqual(['overload', 'rules'])
  expect(service.overloadSettings).toMatchObject({ settings: { concurrency: settings }, tuning })
  service.replace(rulesWith(first), 'back')
  expect(service.overloadSettings.settings).toMatchObject(tuning)
})

test('modes that were tuned hold with whatever rules, also beside numbers that gave way', () => {
  const service = serviceWith('utilisation: { good: 0.1, bad: 0.5 }, queue: { intervalMs: 900 }')
  service.tuneOverload({ utilisation: { mode: 'observe', bad: 0.4 }, queue: { size: 7, targetMs: 500 } })
  service.replace(rulesWith('utilisation: { good: 0.6, bad: 0.9 }'), 'put')
  expect(service.overloadSettings.settings).toMatchObject({
    utilisation: { mode: 'observe', good: 0.6, bad: 0.9 },
    queue: { size: 7, targetMs: 5 },
  })
})

test('protection that is made later, as tuning came from elsewhere, is made of what fits', () => {
  const service = serviceWith('concurrency: { max: 20 }')
  service.setTuning({ concurrency: { min: 50 } })
  expect(service.protection?.state().limit).toBe(20)
})

test('what is tuned after numbers gave way is judged without them', () => {
  const service = serviceWith('concurrency: { max: 100 }')
  service.tuneOverload({ concurrency: { min: 50 } })
  service.replace(rulesWith('concurrency: { max: 20 }'), 'put')
  service.tuneOverload({ concurrency: { max: 10 } })
  expect(service.overloadSettings.settings).toMatchObject({ concurrency: { min: 4, max: 10 } })
  expect(service.overloadSettings.tuning).toEqual({ concurrency: { max: 10 } })
})

test('of tuning that nobody can have meant, as of another version, nothing holds', () => {
  const service = serviceWith('concurrency: 3')
  for (const wrong of [{ mode: 'half' }, { concurrency: { min: '9' } }, { slots: 1 }])
    expect(() => service.setTuning(wrong as unknown as OverloadTuning)).toThrow()
  expect(service.overloadSettings.tuning).toEqual({})
  expect(service.protection?.state().limit).toBe(3)
})

test('rules that cannot hold change nothing: neither limits, nor who is let in', async () => {
  const service = serviceWith('concurrency: 1, queue: false, utilisation: false')
  const { protection } = service
  const work = { priority: 'critical' } as const
  await protection?.enter(work)
  const wrong = rulesWith('concurrency: 9', '{ new: { limit: 1/s } }')
  const tooMuch = { critical: 90, high: 90, normal: 90 }
  const overload = { ...wrong.overload, reserve: tooMuch } as Rules['overload']
  expect(() => service.replace({ ...wrong, overload }, 'put')).toThrow('HG_OPTION_INVALID')
  expect([service.rules.generation, service.rules.limitNames, told]).toEqual([1, [], []])
  expect(protection?.state()).toMatchObject({ limit: 1, inFlight: 1 })
  expect(await protection?.enter(work)).toMatchObject({ ok: false })
  service.replace(rulesWith('concurrency: 2, queue: false, utilisation: false'), 'put')
  expect(await protection?.enter(work)).toMatchObject({ ok: true })
  expect(await protection?.enter(work)).toMatchObject({ ok: false })
})

test('that numbers gave way is in the log', async () => {
  const text = (max: number) =>
    rulesOf('  a: { limit: 1/s }', `upstream: http://127.0.0.1:1\noverload: { concurrency: { max: ${max} } }`)
  const file = rulesFile(text(100))
  const lines: unknown[] = []
  const log = { ...noLog, warn: (fields: object, line: string) => void lines.push([fields, line]) }
  const running = ends(await serve({ file, log }), (each) => each.stop())
  running.service.tuneOverload({ concurrency: { min: 50 } })
  expect(lines).toEqual([])
  swapFile(file, text(20))
  expect(running.reload()).toEqual([])
  expect(lines).toContainEqual([
    { why: ['min 50 would be above max 20.'] },
    'what was tuned of overload protection gives way to the rules',
  ])
})
