import { request, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { responseOf } from '../../test/gateway.ts'
import { behind, ends, type Instance, instance, ownRedis, rulesOf } from '../../test/service.ts'

vi.setConfig({ testTimeout: 60_000 })

const LIMITS = [
  '  tokens: { limit: 100000/year calendar, cost: llm }',
  '  input: { limit: 100000/year calendar, cost: llm:input }',
  '  output: { limit: 100000/year calendar, cost: llm:output }',
  '  calls: { limit: 1000/year calendar }',
].join('\n')

/** A call of 1,000 tokens at most. */
const CALL = { model: 'm', max_tokens: 1000, messages: [{ role: 'user', content: 'a'.repeat(300) }] }

interface Site {
  readonly at: Instance
  readonly url: string
  /** What was used, by limit. */
  used(): Promise<Record<string, number>>
  post(body: unknown, path?: string, headers?: Record<string, string>): Promise<Response>
  /** Headers of what came through. */
  readonly got: Record<string, unknown>[]
}

async function site(answer: (res: ServerResponse, body: Buffer) => void, more = '', limits = LIMITS): Promise<Site> {
  const got: Record<string, unknown>[] = []
  const upstream = await behind((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      got.push(req.headers)
      answer(res, Buffer.concat(chunks))
    })
  })
  const at = await instance(rulesOf(limits, `upstream: ${upstream.url}\n${more}`))
  const used = async () => {
    const names = Object.keys(at.service.rules.limits)
    const entries = names.map(async (name) => {
      const [state] = (await at.service.inspect(name, undefined)).limits
      return [name, (state?.limit ?? 0) - (state?.remaining ?? 0)] as const
    })
    return Object.fromEntries(await Promise.all(entries))
  }
  const url = `${at.url}/v1/chat/completions`
  const post: Site['post'] = (body, path = '/v1/chat/completions', headers = {}) =>
    fetch(`${at.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  return { at, url, used, post, got }
}

function json(value: unknown, status = 200): (res: ServerResponse) => void {
  return (res) => void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

function sse(res: ServerResponse, ...events: unknown[]): void {
  if (!res.headersSent) res.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const event of events) res.write(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
}

const delta = (content: string) => ({ choices: [{ delta: { content } }] })

describe('cost: llm', () => {
  test('what a call may use is reserved while it runs, and is settled by the usage of its answer', async () => {
    const answers: ServerResponse[] = []
    const { used, post } = await site((res) => void answers.push(res))
    const call = post(CALL)
    await until('the call', () => answers[0])
    const reserved = await used()
    expect(reserved).toMatchObject({ output: 1000, calls: 1, tokens: 1000 + (reserved.input ?? 0) })
    expect(reserved.input).toBeGreaterThanOrEqual(100)
    json({ choices: [], usage: { prompt_tokens: 75, completion_tokens: 40, total_tokens: 115 } })(
      answers[0] as ServerResponse,
    )
    expect(await (await call).json()).toHaveProperty('usage')
    await until('the end', async () => (await used()).tokens === 115 || undefined)
    expect(await used()).toEqual({ tokens: 115, input: 75, output: 40, calls: 1 })
  })

  test('a call that can never fit, and one that does not now, do not reach the provider', async () => {
    const { post, got } = await site(json({}))
    const never = await post({ ...CALL, max_tokens: 200_000 })
    expect([never.status, ((await never.json()) as { code: string }).code]).toEqual([429, 'cost_never_fits'])
    await post({ ...CALL, max_tokens: 90_000 })
    expect((await post({ ...CALL, max_tokens: 90_000 })).status).toBe(429)
    expect(got).toHaveLength(1)
  })

  test('a stream passes piece by piece, and is settled by the usage at its end', async () => {
    let provider: ServerResponse | undefined
    const { url, used } = await site((res) => {
      provider = res
      sse(res, delta('Hello'))
    })
    const asked = request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'accept-encoding': 'gzip' },
    })
    asked.end(JSON.stringify({ ...CALL, stream: true }))
    const answer = await responseOf(asked)
    let heard = ''
    answer.setEncoding('utf8').on('data', (chunk: string) => {
      heard += chunk
    })
    await until('the first piece', () => heard.includes('Hello') || undefined)
    sse(
      provider as ServerResponse,
      delta(' world'),
      { choices: [], usage: { prompt_tokens: 80, completion_tokens: 2 } },
      '[DONE]',
    )
    provider?.end()
    await until('the end', async () => (await used()).tokens === 82 || undefined)
    expect(heard).toBe(
      `data: ${JSON.stringify(delta('Hello'))}\n\ndata: ${JSON.stringify(delta(' world'))}\n\ndata: {"choices":[],"usage":{"prompt_tokens":80,"completion_tokens":2}}\n\ndata: [DONE]\n\n`,
    )
    expect(await used()).toEqual({ tokens: 82, input: 80, output: 2, calls: 1 })
  })

  test("Anthropic's messages count what was read from a cache and put there", async () => {
    const { used, post } = await site((res) => {
      const usage = {
        input_tokens: 10,
        cache_read_input_tokens: 200,
        cache_creation_input_tokens: 30,
        output_tokens: 1,
      }
      sse(res, { type: 'message_start', message: { usage } }, { type: 'content_block_delta', delta: { text: 'Hi' } })
      sse(res, { type: 'message_delta', usage: { output_tokens: 25 } }, { type: 'message_stop' })
      res.end()
    })
    await (await post({ ...CALL, stream: true }, '/v1/messages')).text()
    await until('the end', async () => (await used()).tokens === 265 || undefined)
    expect(await used()).toMatchObject({ input: 240, output: 25 })
  })

  test('who leaves in the middle pays for what has flowed', async () => {
    const { url, used } = await site((res) => sse(res, delta('word '.repeat(60))))
    const asked = ends(request(url, { method: 'POST', headers: { 'content-type': 'application/json' } }), (each) =>
      each.destroy(),
    )
    asked.on('error', () => {})
    asked.end(JSON.stringify({ ...CALL, stream: true }))
    const answer = await responseOf(asked)
    await new Promise((resolve) => answer.once('data', resolve))
    const { input: estimated } = await used()
    answer.destroy()
    await until('the end', async () => (await used()).output !== 1000 || undefined)
    expect(await used()).toMatchObject({ input: estimated, output: 100, tokens: (estimated ?? 0) + 100 })
  })

  test('who leaves before an answer pays what was estimated', async () => {
    const answers: ServerResponse[] = []
    const { url, at, used } = await site((res) => void answers.push(res))
    const asked = request(url, { method: 'POST', headers: { 'content-type': 'application/json' } })
    asked.on('error', () => {})
    asked.end(JSON.stringify(CALL))
    await until('the call', () => answers[0])
    const before = await used()
    asked.destroy()
    await until('it to be noticed', () => (answers[0] as ServerResponse).destroyed || undefined)
    await until(
      'nothing to be in flight',
      async () => (await (await fetch(`${at.adminUrl}/metrics`)).text()).includes('headgate_inflight 0') || undefined,
    )
    expect(await used()).toEqual(before)
  })

  test.each<[string, (res: ServerResponse) => void]>([
    ['refuses', json({ error: { message: 'no' } }, 400)],
    ['has too much to do', json({ error: { message: 'no' } }, 529)],
    ['cannot be heard', (res) => void res.destroy()],
    [
      'says so in the middle of nothing',
      (res) => {
        sse(res, { error: { message: 'overloaded' } })
        res.end()
      },
    ],
  ])('a provider that %s sells no tokens; the call was one', async (_, answer) => {
    const { used, post } = await site(answer)
    await (await post({ ...CALL, stream: true })).text()
    await until('the end', async () => (await used()).tokens === 0 || undefined)
    expect(await used()).toEqual({ tokens: 0, input: 0, output: 0, calls: 1 })
  })

  test('a call that another limit cuts off before the provider is asked uses no tokens', async () => {
    const size = '  size: { limit: 500/year calendar, cost: bytes-in }'
    const { url, used, got } = await site(json({}), '', `${LIMITS}\n${size}`)
    const send = async (content: string) => {
      const asked = request(url, { method: 'POST', headers: { 'content-type': 'application/json' } })
      asked.write(' ') // in chunks, so that nobody knows how much comes
      asked.end(JSON.stringify({ ...CALL, messages: [{ role: 'user', content }] }))
      const answer = await responseOf(asked)
      answer.resume()
      return answer.statusCode
    }
    expect(await send('a'.repeat(600))).toBe(429)
    await until('the end', async () => (await used()).tokens === 0 || undefined)
    expect(await used()).toMatchObject({ input: 0, output: 0, calls: 1 })
    expect(got).toEqual([])
    expect(await send('a')).toBe(200)
    expect((await used()).output).toBe(1000) // asked, it told nothing
  })

  test('an answer that nobody can read, or that tells nothing, costs what was estimated', async () => {
    const packed = gzipSync(`data: ${JSON.stringify({ usage: { prompt_tokens: 1, completion_tokens: 1 } })}\n\n`)
    const { used, post, got, at } = await site((res, body) => {
      const fields = { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }
      if (body.includes('packed')) res.writeHead(200, fields).end(packed)
      else res.end('no json')
    })
    for (const content of ['packed', 'plain!']) {
      for (const name of Object.keys(at.service.rules.limits)) await at.service.reset(name)
      await (await post({ ...CALL, messages: [{ role: 'user', content }] })).text()
      expect((await used()).output).toBe(1000)
    }
    expect(got[0]).not.toHaveProperty('accept-encoding')
  })

  test('a header of the upstream is stronger than what is counted', async () => {
    const limits =
      '  tokens: { limit: 100000/year calendar, cost: llm, settle: header:x-tokens }\n  output: { limit: 100000/year calendar, cost: llm:output }'
    const { used, post } = await site(
      (res) =>
        void res.setHeader('x-tokens', '7').end(JSON.stringify({ usage: { prompt_tokens: 80, completion_tokens: 9 } })),
      '',
      limits,
    )
    expect((await post(CALL)).headers.has('x-tokens')).toBe(false)
    await until('the end', async () => (await used()).tokens === 7 || undefined)
    expect(await used()).toEqual({ tokens: 7, output: 9 })
  })

  test('what is no call to a model costs 1 and stays so', async () => {
    const { url, used, post } = await site(json({ usage: { prompt_tokens: 500, completion_tokens: 500 } }))
    await (await fetch(url)).text()
    await (await post({ some: 'thing' }, '/v1/other')).text()
    expect(await used()).toEqual({ tokens: 2, input: 2, output: 2, calls: 2 })
  })

  test('estimates are the rules to say', async () => {
    const answers: ServerResponse[] = []
    const { used, post } = await site((res) => void answers.push(res), 'llm: { defaultOutput: 50, mostOutput: 60 }')
    const { max_tokens: _, ...call } = CALL
    const calls = [post(call)]
    await until('the call', () => answers[0])
    expect((await used()).output).toBe(50)
    calls.push(post(CALL))
    await until('the other', () => answers[1])
    expect((await used()).output).toBe(110)
    for (const res of answers) res.end()
    await Promise.all(calls)
  })

  test('a body with a bound in it twice is refused: providers differ in which one counts', async () => {
    const { post, got } = await site(json({}))
    expect((await post('{"model":"m","max_tokens":1,"max_tokens":9000,"messages":[]}')).status).toBe(400)
    expect((await post('{"model":"m"', '/v1/messages')).status).toBe(400)
    expect(got).toEqual([])
  })

  test('small letters make no other name: some providers see none of them', async () => {
    const { post, used } = await site(json({}))
    expect((await post({ ...CALL, Max_Tokens: 50_000 })).status).toBe(400)
    expect((await post({ ...CALL, max_tokens: undefined, Max_Tokens: 50_000 })).status).toBe(200)
    expect((await used()).output).toBe(50_000)
  })

  test('what the provider tells of its own limits is not told to callers', async () => {
    const { post } = await site((res) => {
      const fields = { 'x-ratelimit-remaining-tokens': '5', 'anthropic-ratelimit-tokens-remaining': '6' }
      res.writeHead(200, fields).end('{}')
    })
    const names = [...(await post(CALL)).headers.keys()]
    expect(names.filter((name) => name.includes('tokens'))).toEqual([])
  })

  test('counts in Redis alike', async () => {
    const redis = await ownRedis()
    const store = `store: redis://127.0.0.1:${redis.port}\ntimeoutMs: 5000`
    const { used, post } = await site(json({ usage: { prompt_tokens: 75, completion_tokens: 40 } }), store)
    await (await post(CALL)).text()
    await until('the end', async () => (await used()).tokens === 115 || undefined)
    expect(await used()).toEqual({ tokens: 115, input: 75, output: 40, calls: 1 })
  })
})
