import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { getIntrospectionQuery } from 'graphql'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { behind, folder, type Instance, instance, rulesFile, rulesOf, swapFile } from '../../test/service.ts'
import { loadRules } from '../config/load.ts'
import { serve } from '../serve.ts'

vi.setConfig({ testTimeout: 60_000 })

const SCHEMA = `
type Query {
  me: User
  users(first: Int): [User!]!
  search(text: String): [User] @cost(weight: "20") @listSize(assumedSize: 5)
}
type Mutation { rename(name: String): User }
type User { id: ID  name: String  friends(first: Int): [User] }
`
const LIMITS = '  points: { limit: 1000/year calendar, when: { path: /graphql }, cost: graphql }'

interface Site {
  readonly at: Instance
  readonly url: string
  /** What came through to the server. */
  readonly got: string[]
  left(): Promise<number>
  /** What an operation cost, or with which code it was refused. */
  post(body: unknown, headers?: Record<string, string>, query?: string): Promise<number | string>
}

async function site(limits = LIMITS, more = '', schema = SCHEMA): Promise<Site> {
  const got: string[] = []
  const upstream = await behind((req, res) => {
    let text = ''
    req.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    req.on('end', () => {
      got.push(text || (req.url ?? ''))
      res.end('{"data":null}')
    })
  })
  const graphql = `graphql:\n  schema: |${schema.replace(/\n/g, '\n    ')}\n${more}`
  const at = await instance(rulesOf(limits, `upstream: ${upstream.url}\n${graphql}`))
  const left = async () => (await at.service.inspect('points', undefined)).limits[0]?.remaining as number
  const url = `${at.url}/graphql`
  const post: Site['post'] = async (body, headers = {}, query = '') => {
    await at.service.reset('points')
    const sent = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
    const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: sent as string }
    const answer = await fetch(`${url}${query}`, init)
    const text = await answer.text()
    if (answer.status === 200) return 1000 - (await left())
    return `${answer.status} ${(JSON.parse(text) as { code: string }).code}`
  }
  return { at, url, got, left, post }
}

describe('cost: graphql', () => {
  test('an operation costs what it asks for, before the upstream is asked', async () => {
    const { post, got } = await site()
    expect(await post({ query: '{ me { id } }' })).toBe(2)
    expect(await post({ query: '{ users(first: 3) { friends(first: 4) { id } } }' })).toBe(1 + 3 * (1 + 4))
    expect(await post({ query: '{ search(text: "a") { id } }' })).toBe(1 + 20 + 5)
    expect(await post({ query: 'mutation { rename(name: "a") { id } }' })).toBe(2)
    const query = 'query A($n: Int) { users(first: $n) { id } } query B { me { id } }'
    expect(await post({ query, variables: { n: 50 }, operationName: 'A' })).toBe(51)
    expect(await post({ query, variables: null, operationName: 'B' })).toBe(2)
    expect(await post({ query: '{ users(first: 5000) { id } }' })).toBe('429 cost_never_fits')
    expect(got.at(-1)).toBe(JSON.stringify({ query, variables: null, operationName: 'B' }))
    expect(got).toHaveLength(6)
  })

  test('operations of a batch add up', async () => {
    const { post } = await site()
    const me = { query: '{ me { id } }' }
    expect(await post([me, { query: '{ users(first: 10) { id } }' }, me])).toBe(2 + 11 + 2)
    expect(await post([])).toBe(1)
    expect(await post(Array.from({ length: 101 }, () => me))).toBe('400 HG_QUERY_TOO_LARGE')
  })

  test('a batch that is too large in all is refused before any of it is parsed: who is refused pays nothing', async () => {
    const { post } = await site()
    const large = { query: `{ ${'__typename '.repeat(900)}}` } // 902 of 5,000 tokens
    const broken = { query: '{ me { ' }
    const five = [large, large, large, large, large]
    expect(await post(five)).toBe(5)
    expect(await post([...five, large])).toBe('400 HG_QUERY_TOO_LARGE')
    expect(await post([broken, ...five, large])).toBe('400 HG_QUERY_TOO_LARGE')
    expect(await post([broken, large])).toBe('400 HG_QUERY_INVALID')
    expect(await post([...five, large, {}])).toBe('400 HG_QUERY_INVALID')
  })

  test('a query in the URL costs the same; a request without one costs 1', async () => {
    const { at, url, left } = await site()
    const get = async (parameters: Record<string, string>) => {
      await at.service.reset('points')
      const { status } = await fetch(`${url}?${new URLSearchParams(parameters)}`)
      return status === 200 ? 1000 - (await left()) : status
    }
    expect(await get({ query: 'query($n: Int) { users(first: $n) { id } }', variables: '{"n": 7}' })).toBe(8)
    expect(await get({})).toBe(1)
    expect(await get({ query: '{ nothing }' })).toBe(400)
    expect(await get({ query: '{ me { id } }', variables: '{"n":' })).toBe(400)
    await at.service.reset('points')
    expect((await fetch(`${url}?query={me{id}}&query={users{id}}`)).status).toBe(400)
  })

  test('text of its own type is read, and so is what is packed', async () => {
    const { post } = await site()
    expect(await post('{ me { id } }', { 'content-type': 'application/graphql' })).toBe(2)
    const packed = gzipSync(JSON.stringify({ query: '{ users(first: 3) { id } }' }))
    expect(await post(packed, { 'content-encoding': 'gzip' })).toBe(4)
  })

  test('what is abusive, or cannot be known, is refused with its code and charged to nobody', async () => {
    const { at, post, got, left } = await site(LIMITS, '  maxDepth: 4\n  maxAliases: 2')
    const deep = `{ me { ${'friends { '.repeat(4)}id${' }'.repeat(4)} } }`
    const bomb = `{ ${Array.from({ length: 3 }, (_, i) => `a${i}: me { id }`).join(' ')} }`
    const cycle = '{ me { ...A } } fragment A on User { ...B } fragment B on User { ...A }'
    const refused: [unknown, string][] = [
      [{ query: deep }, '400 HG_QUERY_TOO_DEEP'],
      [{ query: bomb }, '400 HG_QUERY_TOO_LARGE'],
      [{ query: cycle }, '400 HG_QUERY_INVALID'],
      [{ query: `{ ${'me { id } '.repeat(5000)}}` }, '400 HG_QUERY_TOO_LARGE'],
      [{ query: '{ me { ' }, '400 HG_QUERY_INVALID'],
      [{ query: '{ unknown }' }, '400 HG_QUERY_INVALID'],
      [{ query: 'subscription { a }' }, '400 HG_QUERY_INVALID'],
      [{ query: 5 }, '400 HG_QUERY_INVALID'],
      [{ query: '{ me { id } }', variables: 'text' }, '400 HG_QUERY_INVALID'],
      [{ query: '{ me { id } }', operationName: 5 }, '400 HG_QUERY_INVALID'],
      [{ extensions: { persistedQuery: { version: 1, sha256Hash: 'ab' } } }, '400 HG_QUERY_INVALID'],
      ['null', '400 HG_QUERY_INVALID'],
      ['[1]', '400 HG_QUERY_INVALID'],
      ['{"query":"{ me { id } }","query":"{ users(first: 900) { id } }"}', '400 body_invalid'],
      ['{"query":"{ me { id } }"', '400 body_invalid'],
    ]
    for (const [body, expected] of refused) expect([body, await post(body)]).toEqual([body, expected])
    expect(await post('query={me{id}}', { 'content-type': 'application/x-www-form-urlencoded' })).toBe(
      '415 body_unsupported',
    )
    expect([got, await left()]).toEqual([[], 1000])
    const answer = await fetch(`${at.url}/graphql`, {
      method: 'POST',
      body: JSON.stringify({ query: deep }),
      headers: { 'content-type': 'application/json' },
    })
    expect(await answer.json()).toMatchObject({
      code: 'HG_QUERY_TOO_DEEP',
      detail: expect.stringMatching(/^The query .*deep/),
      errors: [{ message: expect.stringContaining('deep'), extensions: { code: 'HG_QUERY_TOO_DEEP' } }],
    })
  })

  test('what stands both in the URL and in the body is refused: servers differ in which one they run', async () => {
    const { post } = await site()
    const cheap = { query: '{ me { id } }', operationName: null }
    expect(await post(cheap, {}, '?query={users{id}}')).toBe('400 HG_QUERY_INVALID')
    expect(await post(cheap, {}, '?variables={"n":900}')).toBe('400 HG_QUERY_INVALID')
    expect(
      await post(
        { query: 'query A { me { id } } query B { users { id } }', operationName: 'A' },
        {},
        '?operationName=B',
      ),
    ).toBe('400 HG_QUERY_INVALID')
    expect(await post({ query: 'query A { me { id } }', operationName: 'A' }, {}, '?operationName=A&op=A')).toBe(2)
    expect(await post('', {}, '?query={me{id}}')).toBe(2)
    expect(await post([], {}, '?query={users{id}}')).toBe('400 HG_QUERY_INVALID')
    expect(await post([], {}, '?operationName=A')).toBe(1)
  })

  test('what names an operation that the server knows is refused, in the URL too: nobody knows what that costs', async () => {
    const { at, url, post, left } = await site()
    const cheap = { query: '{ me { id } }' }
    const hash = 'extensions={"persistedQuery":{"version":1,"sha256Hash":"ab"}}'
    for (const query of [`?${hash}`, '?documentId=ab', '?Extensions={}', '?DOCUMENTID=ab'])
      for (const body of [cheap, []])
        expect([query, await post(body, {}, query)]).toEqual([query, '400 HG_QUERY_INVALID'])
    expect(await post({ ...cheap, documentId: 'ab' })).toBe('400 HG_QUERY_INVALID')
    await at.service.reset('points')
    for (const query of [hash, 'documentId=ab']) expect((await fetch(`${url}?${query}`)).status).toBe(400)
    expect((await fetch(`${url}?query={me{id}}&${hash}`)).status).toBe(200)
    expect(await left()).toBe(998)
  })

  test('small letters make no other name: some servers read none of them', async () => {
    const { at, url, post, left } = await site()
    const dear = '{ users(first: 100) { id } }'
    expect(await post({ query: '{ me { id } }', Query: dear })).toBe('400 body_invalid')
    expect(await post([{ query: '{ me { id } }', QUERY: dear }])).toBe('400 body_invalid')
    expect(await post({ Query: 'query($n: Int) { users(first: $n) { id } }', VARIABLES: { n: 7 } })).toBe(8)
    expect(
      await post({ query: 'query($n: Int, $N: Int) { users(first: $n) { id } }', variables: { n: 7, N: 8 } }),
    ).toBe(8)
    expect(await post({ query: '{ me { id } }' }, {}, `?QUERY=${dear}`)).toBe('400 HG_QUERY_INVALID')
    await at.service.reset('points')
    await fetch(`${url}?Query=${dear}`)
    expect(await left()).toBe(1000 - 101)
    expect((await fetch(`${url}?query={me{id}}&Query=${dear}`)).status).toBe(400)
  })

  test('a limit that is observed refuses no query', async () => {
    const { post } = await site('  points: { limit: 1000/year calendar, cost: graphql, mode: observe }')
    expect(await post({ query: '{ unknown }' })).toBe(1)
    expect(await post({ query: '{ users(first: 30) { id } }' })).toBe(31)
  })

  test('the usual introspection query passes', async () => {
    const { post } = await site(LIMITS.replace('1000/year calendar', '1000000/year calendar'))
    expect(await post({ query: getIntrospectionQuery() })).toBeTypeOf('number')
  })

  test('tells of other limits beside it, each by its own cost', async () => {
    const { at, post } = await site(
      `${LIMITS}\n  calls: { limit: 10/year calendar }\n  batch: { limit: 100/year calendar, cost: items:$ }`,
    )
    await post([{ query: '{ me { id } }' }, { query: '{ me { id } }' }])
    const left = async (name: string) => (await at.service.inspect(name, undefined)).limits[0]?.remaining
    expect([await left('points'), await left('calls'), await left('batch')]).toEqual([996, 9, 98])
  })
})

describe('the schema of cost: graphql', () => {
  const rules = (schema: string) => rulesOf(LIMITS, `upstream: http://127.0.0.1:1\ngraphql: ${schema}`)

  test('is a file beside the rules, read again when it changes; one that is wrong changes nothing', async () => {
    const upstream = await behind((req, res) => void req.resume().on('end', () => res.end()))
    const file = rulesFile(rules('{ schema: types/api.graphql }').replace('http://127.0.0.1:1', upstream.url))
    const schema = join(dirname(file), 'types/api.graphql')
    mkdirSync(dirname(schema))
    writeFileSync(schema, SCHEMA)
    const running = await serve({ file, env: {} })
    try {
      const cost = async () => {
        await running.service.reset('points')
        const body = JSON.stringify({ query: '{ me { id } }' })
        const headers = { 'content-type': 'application/json' }
        await fetch(`http://127.0.0.1:${running.port}/graphql`, { method: 'POST', headers, body })
        return 1000 - ((await running.service.inspect('points', undefined)).limits[0]?.remaining ?? 0)
      }
      expect(await cost()).toBe(2)
      swapFile(schema, SCHEMA.replace('type User', 'type User @cost(weight: 7)'))
      await until('the new one', async () => (await cost()) === 8 || undefined)
      swapFile(schema, `${SCHEMA}\ntype {`)
      expect(running.reload()).toEqual([`${schema}:10:6 Expected Name, found "{"; mend the schema (HG_RULES_GRAPHQL)`])
      expect(await cost()).toBe(8)
    } finally {
      await running.stop()
    }
  })

  test.each([
    ['type Query { me: User }', '1:18 there is no type "User"; mend the schema (HG_RULES_GRAPHQL)'],
    [
      'type Query {\n  me: ID\n}\ntype Query { a: ID }',
      '4:1 type "Query" is there twice; mend the schema (HG_RULES_GRAPHQL)',
    ],
    [
      'type Query { a: I }\ninterface I { b: ID }\ntype T implements I { c: ID }',
      /^2:15 Interface field I\.b expected/,
    ],
    ['', '1:1 Unexpected <EOF>; mend the schema (HG_RULES_GRAPHQL)'],
  ])('is refused by its own line and column: %s', (text, expected) => {
    const file = rulesFile(rules('api.graphql'))
    const schema = join(dirname(file), 'api.graphql')
    writeFileSync(schema, text)
    const said =
      typeof expected === 'string' ? `${schema}:${expected}` : expect.stringMatching(expected.source.slice(1))
    expect(() => loadRules(file)).toThrow(expect.objectContaining({ message: said }))
  })

  test('a file that is not there is told where it is named', () => {
    const file = rulesFile(rules('nowhere.graphql'))
    expect(() => loadRules(file)).toThrow(
      /headgate\.yaml:2:10 graphql\.schema: .*nowhere\.graphql cannot be read \(ENOENT\); .*\(HG_RULES_FILE\)$/,
    )
    const other = rulesFile(rules(folder()))
    expect(() => loadRules(other)).toThrow(/is no file; .*\(HG_RULES_FILE\)$/)
  })

  test('nobody asks it: that is a warning', () => {
    const file = rulesFile(
      'upstream: http://127.0.0.1:1\ngraphql: "type Query { a: ID }"\nlimits: { a: { limit: 5/min } }',
    )
    expect(loadRules(file).warnings).toMatchObject([{ line: 2, column: 1, reason: 'no limit has cost: graphql' }])
  })
})
