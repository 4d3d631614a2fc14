import type { Settled } from 'headgate/llm'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import { printed } from '../printed.ts'
import { urlOf } from '../serving.ts'
import { answer, streamed } from './by-hand.ts'
import { gateway, teamBudget } from './gateway.ts'
import { provider } from './provider.ts'

const ann = { name: 'ann', plan: 'pro' } as const

async function start() {
  const behind = provider()
  const settled: Settled<unknown>[] = []
  const budget = teamBudget({ clock: fakeClock(), onSettled: (each) => void settled.push(each) })
  const url = await urlOf(gateway(await urlOf(behind.listen(0, '127.0.0.1')), budget).listen(0, '127.0.0.1'))
  function ask(prompt: string, more: object = {}, init: RequestInit = {}, path = '/v1/chat/completions') {
    const body = { model: 'gpt-4o', max_tokens: 400, messages: [{ role: 'user', content: prompt }], ...more }
    const headers = { 'x-api-key': 'key-of-ann' }
    return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body), ...init })
  }
  const used = async () =>
    Object.fromEntries((await budget.left(ann)).map(({ name, limit, remaining }) => [name, limit - remaining]))
  return { url, ask, used, behind, settled }
}

/** Reads until so many words of the answer have come. */
async function readWords({ body }: Response, words: number): Promise<ReadableStreamDefaultReader> {
  const reader = (body as ReadableStream<Uint8Array>).getReader()
  const decoder = new TextDecoder()
  for (let text = ''; (text.match(/ninechars/g) ?? []).length < words; ) {
    const { done, value } = await reader.read()
    if (done) throw new Error('it ended too soon')
    text += decoder.decode(value, { stream: true })
  }
  return reader
}

test('calls are charged what they used, and refused when a budget is spent', async () => {
  await expect(await printed(() => import('./llm.ts'))).toMatchFileSnapshot('output.txt')
})

test.each([
  ['OpenAI', 'gpt-4o', '/v1/chat/completions', 3],
  ['Anthropic', 'claude-sonnet-4-5', '/v1/messages', 4],
] as const)(
  'an answer in the style of %s that is given up costs what had flowed, and the provider is told',
  async (_style, model, path, per) => {
    const { ask, used, behind } = await start()
    const leave = new AbortController()
    const response = await ask('pause after half of 2 words', { model, stream: true }, { signal: leave.signal }, path)
    await readWords(response, 1)
    expect(await used()).toMatchObject({ requests: 1, output: 400 })
    leave.abort()
    await until('it is settled', async () => (await used()).output !== 400 || undefined)
    expect(await used()).toMatchObject({ requests: 1, output: per })
    await until('the provider knows', () => behind.givenUp === 1 || undefined)
  },
)

test('an answer that breaks off costs what had flowed', async () => {
  const { ask, used, behind, settled } = await start()
  const response = await ask('pause after half of 8 words', { stream: true })
  const reader = await readWords(response, 4)
  behind.closeAllConnections()
  await expect(reader.read()).rejects.toThrow()
  expect(settled).toHaveLength(1)
  expect(await used()).toMatchObject({ requests: 1, input: 16, output: 12 })
})

test('an answer that runs over is seen by others while it flows', async () => {
  const { ask, used, settled } = await start()
  const leave = new AbortController()
  const init = { signal: leave.signal }
  const response = await ask('pause after half of 2000 words', { stream: true, max_tokens: 10 }, init)
  await readWords(response, 1_000)
  expect((await used()).output).toBeGreaterThan(1_900)
  leave.abort()
  await until('it is settled', () => settled.length === 1 || undefined)
  expect((await used()).output).toBe(3_000)
})

test('a provider that fails, or cannot be reached, costs a request and no tokens', async () => {
  const { ask, used } = await start()
  expect((await ask('an error, please')).status).toBe(500)
  expect((await ask('unplug')).status).toBe(502)
  expect(await used()).toEqual({ requests: 2, input: 0, output: 0, tokens: 0, money: 0 })
})

test('calls side by side never get more than there is', async () => {
  const { ask, used, behind, settled } = await start()
  const body = { max_tokens: 1_000, stream: true }
  const all = await Promise.all(Array.from({ length: 60 }, () => ask('pause after half of 2 words', body)))
  expect(all.map(({ status }) => status).sort()).toEqual([...Array(20).fill(200), ...Array(40).fill(429)])
  const admitted = all.filter(({ status }) => status === 200)
  const readers = await Promise.all(admitted.map((response) => readWords(response, 1)))
  for (const reader of readers) await reader.cancel()
  await until('all are settled', () => settled.length === 20 || undefined)
  expect(await used()).toMatchObject({ requests: 20, output: 60 })
  await until('the provider knows', () => behind.givenUp === 20 || undefined)
})

test('callers see their own limits in the style they know, and never those of the provider', async () => {
  const { ask } = await start()
  const chat = await ask('say 2 words')
  expect(chat.headers.get('x-ratelimit-remaining-requests')).toBe('599')
  expect(chat.headers.get('x-ratelimit-remaining-tokens')).toBe('19600')
  const message = await ask('say 2 words', { model: 'claude-sonnet-4-5' }, {}, '/v1/messages')
  expect(message.headers.get('anthropic-ratelimit-output-tokens-limit')).toBe('20000')
  expect(message.headers.get('x-ratelimit-remaining-requests')).toBe(null)
})

test('what is no call, or has no key, is not sent on', async () => {
  const { ask, url } = await start()
  expect((await ask('hello', {}, { body: 'no JSON' })).status).toBe(400)
  expect((await ask('hello', {}, {}, '/v1/models')).status).toBe(400)
  expect((await ask('hello'.repeat(5_000_000))).status).toBe(413)
  expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(401)
})

test('calls that are not made by fetch are settled by hand, in one piece or streamed', async () => {
  const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 }
  const lines = await printed(async () => {
    expect(await answer('in one piece', body)).toBe('Hello')
    for await (const _ of streamed('streamed', body));
    for await (const _ of streamed('left', body)) break
  })
  expect(lines.trim().split('\n')).toEqual([
    'in one piece { requests: 1, tokens: 15 }',
    'streamed { requests: 1, tokens: 18 }',
    'left { requests: 1, tokens: 15 }',
  ])
})
