import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { startApi } from '../../test/api.ts'
import { correctedSchema, decisionSchema, itemErrorSchema, problemSchema } from './schemas.ts'

const seed = 20_260_726
const rules = `
identify: { user: "jwt:sub", tier: header:x-plan }
limits:
  per-ip: { limit: 10/s, by: [ip] }
  plan: { limit: { free: 10/s, pro: unlimited }, by: [user], when: { header: { x-plan: "*" } } }
  login: { limit: 5/min, by: [cookie:sid, query:q], when: { path: /login }, countWhen: { status: 401 } }
`
const words = [
  'request',
  'limits',
  'cost',
  'id',
  'method',
  'path',
  'ip',
  'headers',
  'host',
  'limit',
  'key',
  'atOnce',
  'holdMs',
]
const names = fc.oneof(
  fc.constantFrom(...words, 'algorithm', 'reservation', 'actual', 'status', '__proto__', 'constructor', 'x-plan'),
  fc.string(),
)
const values = fc.oneof(
  fc.constantFrom(
    '10/min',
    '1/s burst 2',
    'unlimited',
    '/login?q=1',
    '192.0.2.1',
    '::1',
    'gcra',
    'free',
    '\u0000',
    '\ud800',
    '',
  ),
  fc.string(),
  fc.double(),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
)
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { depthSize: 'small' },
    values,
    fc.array(tie('tree'), { maxLength: 4 }),
    fc.dictionary(names, tie('tree'), { maxKeys: 4 }),
  ),
}))
/** Near enough to right that much of it gets through. */
const near = fc.record(
  {
    request: fc.record(
      {
        method: values,
        path: values,
        ip: fc.constantFrom('192.0.2.1', 'x', '::1'),
        headers: fc.dictionary(names, fc.oneof(values, fc.array(values))),
      },
      { requiredKeys: [] },
    ),
    limits: fc.dictionary(
      fc.oneof(fc.constantFrom('a', 'b', 'c-1'), names),
      fc.record(
        { limit: values, key: tree, atOnce: values, cost: values, algorithm: values },
        { requiredKeys: ['key'] },
      ),
    ),
    cost: values,
    id: values,
  },
  { requiredKeys: [] },
)
const bodies = fc.oneof(
  tree,
  near,
  fc.array(near, { maxLength: 5 }),
  fc.record({ reservation: values, actual: tree, status: values }),
)
const paths = fc.constantFrom('/v1/take', '/v1/peek', '/v1/settle', '/v1/refund', '/v1/release')

const isAnswer = (body: unknown) =>
  [decisionSchema, correctedSchema, itemErrorSchema].some((schema) => schema.safeParse(body).success)

test(`whatever is sent gets an answer of a known shape (seed ${seed})`, async () => {
  const { post } = await startApi(rules)
  const property = fc.asyncProperty(paths, bodies, async (path, sent) => {
    const { status, body } = await post<unknown>(path, JSON.stringify(sent) ?? 'undefined')
    if (status === 200) expect([body].flat().every(isAnswer), JSON.stringify(body)).toBe(true)
    else {
      expect([400, 404]).toContain(status)
      expect(problemSchema.parse(body).status).toBe(status)
    }
  })
  await fc.assert(property, { seed, numRuns: 1500 })
}, 60_000)

test(`texts that are cut, doubled or mixed up get an answer too (seed ${seed})`, async () => {
  const { post } = await startApi(rules)
  const mangled = fc.tuple(bodies, fc.nat(), fc.nat(), fc.string()).map(([body, from, length, between]) => {
    const text = JSON.stringify(body)
    const at = from % (text.length + 1)
    return text.slice(0, at) + between + text.slice(at + (length % 5))
  })
  const property = fc.asyncProperty(paths, mangled, async (path, text) => {
    expect([200, 400, 404]).toContain((await post(path, text)).status)
  })
  await fc.assert(property, { seed, numRuns: 500 })
}, 60_000)
