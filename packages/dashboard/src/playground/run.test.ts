import { expect, test } from 'vitest'
import { algorithms, periodMs, ruleOf, runLane } from './run.ts'
import { arrivalsOf, COLUMNS, columnsOf, MOST_PER_COLUMN, readColumns, shapeNames, writeColumns } from './traffic.ts'

const limit = { limit: 10, per: '10s' }

test('around a boundary a fixed window lets twice the limit through, and those that slide do not', () => {
  const lanes = Object.fromEntries(algorithms.map((name) => [name, runLane(limit, name, columnsOf('boundary', 10))]))
  expect(lanes['fixed-window']).toMatchObject({ total: 20, denied: 0, worst: 20 })
  for (const name of ['sliding-log', 'strict-window', 'sliding-window'])
    expect(lanes[name], name).toMatchObject({ worst: 10, total: 10 })
  expect(lanes.gcra).toMatchObject({ total: 11, denied: 9 })
})

test('a burst is for those that know one', () => {
  const columns = Array.from({ length: COLUMNS }, (_, i) => (i === 0 ? 30 : 0))
  const totals = algorithms.map((name) => runLane({ ...limit, burst: 20 }, name, columns).total)
  expect(totals).toEqual([20, 20, 20, 10, 10, 10, 10])
  expect(ruleOf({ ...limit, burst: 20 }, 'gcra')).toBe('per-ip: { limit: 10/10s burst 20, algorithm: gcra, by: [ip] }')
  expect(ruleOf({ ...limit, burst: 20 }, 'sliding-log')).toBe(
    'per-ip: { limit: 10/10s, algorithm: sliding-log, by: [ip] }',
  )
})

test('all traffic that is offered fits an address, and an address brings it back', () => {
  for (const [shape] of shapeNames) {
    const columns = columnsOf(shape, 40)
    expect(columns).toHaveLength(COLUMNS)
    expect(Math.max(...columns), shape).toBeLessThanOrEqual(MOST_PER_COLUMN)
    expect(readColumns(writeColumns(columns))).toEqual(columns)
  }
  for (const text of ['', '0', `${'0'.repeat(59)}-`, '0'.repeat(61)]) expect(readColumns(text)).toBe(undefined)
})

test('requests come in the column in which they are drawn', () => {
  const columns = columnsOf('ramp', 20)
  const arrivals = arrivalsOf(columns, 10_000)
  expect(arrivals).toHaveLength(columns.reduce((sum, n) => sum + n, 0))
  expect(arrivals).toEqual([...arrivals].sort((a, b) => a - b))
  columns.forEach((n, i) => {
    expect(arrivals.filter((ms) => Math.floor(ms / 500) === i)).toHaveLength(n)
  })
})

test('a period that cannot be read is told in the words of the library', () => {
  expect(periodMs({ limit: 1, per: '2min' })).toBe(120_000)
  expect(() => periodMs({ limit: 1, per: 'parsec' })).toThrow(/HG_.*parsec/)
})
