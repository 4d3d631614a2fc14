import fc from 'fast-check'
import { type EstimateOptions, type LlmRequest, type ReadOptions, readRequest, requestReader } from 'headgate/llm'
import { describe, expect, test } from 'vitest'
import { runs } from '../properties/support.ts'

const hello = [{ role: 'user', content: 'Hello there' }]
const text = 'x'.repeat(3_000)

describe('what a call asks for is read from its body', () => {
  const rows: [string, object, Partial<LlmRequest>, ReadOptions?][] = [
    [
      'chat completions',
      { model: 'gpt-4o', messages: hello, max_tokens: 50 },
      { endpoint: 'chat', model: 'gpt-4o', output: 50 },
    ],
    ['chat with the newer bound', { model: 'o3', messages: hello, max_completion_tokens: 70 }, { output: 70 }],
    [
      'two bounds: the larger',
      { model: 'm', messages: hello, max_tokens: 900, max_completion_tokens: 1 },
      { output: 900 },
    ],
    ['several answers', { model: 'm', messages: hello, max_tokens: 50, n: 3 }, { output: 150 }],
    ['a stream', { model: 'm', messages: hello, stream: true }, { stream: true, output: 4_096 }],
    ['no stream', { model: 'm', messages: hello, stream: 'yes' }, { stream: false }],
    [
      'the Responses API',
      { model: 'gpt-5', input: 'Hi', max_output_tokens: 99 },
      { endpoint: 'responses', output: 99 },
    ],
    [
      'legacy completions',
      { model: 'm', prompt: 'Hi', max_tokens: 5, best_of: 4, n: 2 },
      { endpoint: 'completions', output: 20 },
    ],
    ['one answer to each prompt', { model: 'm', prompt: ['a', 'b', 'c'], max_tokens: 5 }, { output: 15 }],
    ['a prompt of tokens is one', { model: 'm', prompt: [1, 2, 3], max_tokens: 5 }, { input: 3, output: 5 }],
    ['embeddings', { model: 'text-embedding-3-small', input: ['a', 'b'] }, { endpoint: 'embeddings', output: 0 }],
    ['embeddings of tokens', { model: 'e', input: [[1, 2], [3]], encoding_format: 'float' }, { input: 3, output: 0 }],
    [
      'Anthropic',
      { model: 'claude-sonnet-4-5', max_tokens: 1024, messages: hello },
      { endpoint: 'messages', output: 1024 },
    ],
    [
      'Anthropic by its fields',
      { model: 'x', max_tokens: 9, system: 'Be kind', messages: hello },
      { endpoint: 'messages' },
    ],
    ['by its path', { model: 'x', messages: hello }, { endpoint: 'messages' }, { path: '/v1/messages?beta=true' }],
    [
      'by its path, behind another',
      { model: 'x', input: 'a' },
      { endpoint: 'embeddings', output: 0 },
      { path: '/openai/v1/embeddings/' },
    ],
    [
      'Azure names the model in the path',
      { messages: hello },
      { endpoint: 'chat', model: 'mine' },
      { path: '/openai/deployments/mine/chat/completions' },
    ],
    ['a model that is known otherwise', { messages: hello }, { model: 'theirs' }, { model: 'theirs' }],
    ['no model at all', { messages: hello }, { model: '' }],
  ]
  test.each(rows)('%s', (_name, body, expected, options) => {
    expect(readRequest(body, options)).toMatchObject(expected)
  })

  test.each([
    ['nothing', undefined],
    ['text', '{}'],
    ['a list', [hello]],
    ['an object of another kind', { model: 'gpt-4o' }],
  ])('%s is no call', (_name, body) => expect(readRequest(body)).toBeUndefined())

  test('what costs no tokens is no call, by its path: to count tokens, to list models', () => {
    const body = { model: 'claude', messages: hello, max_tokens: 10 }
    expect(readRequest(body, { path: '/v1/messages/count_tokens' })).toBeUndefined()
    expect(readRequest(body, { path: '/v1/models' })).toBeUndefined()
  })
})

describe('input is estimated before anybody has counted it', () => {
  const inputOf = (body: object, options?: EstimateOptions) =>
    readRequest({ messages: [], ...body }, options)?.input ?? -1
  const said = (content: unknown) => ({ messages: [{ role: 'user', content }] })

  test('as a third of its bytes, a little more for what stands around it', () => {
    expect(inputOf(said('Hello there'))).toBe(10)
    expect(inputOf(said(text))).toBe(1_007)
    expect(inputOf(said('漢'.repeat(1_000)))).toBe(1_007)
    expect(inputOf(said('é😀'.repeat(500)))).toBe(1_007)
  })

  test('with the system prompt, instructions, tools and formats', () => {
    const bare = inputOf(said('Hi'))
    const schema = { type: 'object', properties: { city: { type: 'string', description: text } } }
    for (const part of [
      { system: text },
      { system: [{ type: 'text', text }] },
      { instructions: text },
      { tools: [{ type: 'function', function: { name: 'weather', parameters: schema } }] },
      { tools: [{ name: 'weather', input_schema: schema }] },
      { response_format: { type: 'json_schema', json_schema: { schema } } },
      { text: { format: { type: 'json_schema', schema } } },
    ])
      expect(inputOf({ ...said('Hi'), ...part }) - bare).toBeGreaterThanOrEqual(1_000)
  })

  test('what tools were told and have answered counts too', () => {
    const call = { role: 'assistant', tool_calls: [{ id: '1', function: { name: 'f', arguments: text } }] }
    const answer = {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: '1', content: [{ type: 'text', text }] }],
    }
    expect(inputOf({ messages: [call] })).toBeGreaterThan(1_000)
    expect(inputOf({ messages: [answer] })).toBeGreaterThan(1_000)
  })

  test('an image counts as one, however long its data is', () => {
    const data = 'A'.repeat(400_000)
    for (const image of [
      { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
      { type: 'image_url', image_url: { url: 'https://example.com/cat.png', detail: 'high' } },
      { type: 'input_image', image_url: `data:image/png;base64,${data}` },
      { type: 'input_image', file_id: 'file-1' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
    ]) {
      const input = inputOf(said([{ type: 'text', text: 'What is this?' }, image]))
      expect(input).toBeGreaterThan(2_500)
      expect(input).toBeLessThan(2_550)
      expect(inputOf(said([image]), { mediaTokens: 85 })).toBeLessThan(110)
    }
  })

  test('a file counts as its text, one that is only named as an image, speech by its length', () => {
    const data = 'A'.repeat(300_000)
    const named = { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } }
    expect(inputOf(said([{ type: 'document', source: { type: 'text', data: text } }]))).toBeGreaterThan(1_000)
    expect(inputOf(said([{ type: 'file', file: { file_data: data } }]))).toBeGreaterThan(100_000)
    expect(inputOf(said([named]))).toBeGreaterThan(2_500)
    expect(inputOf(said([{ type: 'input_audio', input_audio: { data, format: 'mp3' } }]))).toBe(3_000 + 6)
  })

  test('a counter of your own is asked instead', () => {
    const seen: unknown[] = []
    const count = (given: string, model: string) => {
      seen.push(given.includes('one two three'), model)
      return given.split(/\s+/).length
    }
    expect(inputOf({ model: 'm', ...said('one two three') }, { count })).toBe(6)
    expect(seen).toEqual([true, 'm'])
    expect(() => inputOf(said('Hi'), { count: () => Number.NaN })).toThrow('HG_OPTION_INVALID: "count" returned NaN')
  })
})

describe('whoever sends a body can write anything into it', () => {
  test.each([
    ['a bound that is no number', { max_tokens: '50' }, 4_096],
    ['a bound below zero', { max_tokens: -5 }, 4_096],
    ['a bound beyond all', { max_tokens: 1e300 }, 1e9],
    ['half a token', { max_tokens: 1.5 }, 2],
    ['more answers than there are numbers', { max_tokens: 1_000, n: 1e300 }, 1e7],
    ['no answers', { max_tokens: 10, n: 0 }, 10],
    ['answers below zero', { max_tokens: 10, n: -3 }, 10],
  ])('%s', (_name, fields, output) => expect(readRequest({ messages: hello, ...fields })?.output).toBe(output))

  test('any JSON at all', () => {
    const word = fc.constantFrom(
      'messages',
      'input',
      'prompt',
      'content',
      'type',
      'source',
      'image_url',
      'max_tokens',
      'n',
      'tools',
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.oneof(fc.double(), fc.string(), fc.constantFrom(null, true, 'image', 'input_audio', 'data:image/png')),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(word, tie('value'), { maxKeys: 5 }),
      ),
    }))
    fc.assert(
      fc.property(value, (body) => {
        const { input, output } = readRequest(body) ?? { input: 0, output: 1 }
        expect([Number.isSafeInteger(input), Number.isSafeInteger(output)]).toEqual([true, true])
      }),
      runs(500),
    )
  })

  test('as deep as it likes', () => {
    const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)
    expect(readRequest({ messages: [deep] })?.input).toBe(0)
    expect(readRequest({ messages: hello, tools: deep })?.input).toBe(10)
  })

  test('and as much as it likes', () => {
    expect(readRequest({ model: 'embed', input: Array.from({ length: 300_000 }, (_, i) => i) })?.input).toBe(300_000)
    expect(readRequest({ model: 'm', prompt: Array.from({ length: 50_000 }, () => 'a') })?.output).toBe(4_096 * 10_000)
  })
})

test('no more is reserved for an answer than the options say', () => {
  expect(readRequest({ messages: hello, max_tokens: 64_000 }, { mostOutput: 8_000 })?.output).toBe(8_000)
  expect(readRequest({ messages: hello }, { defaultOutput: 500 })?.output).toBe(500)
})

test('a reader with options of its own refuses wrong ones', () => {
  expect(requestReader({ defaultOutput: 7 })({ messages: hello }, { path: '/v1/chat/completions' })?.output).toBe(7)
  expect(() => requestReader({ defaultOutput: 1.5 })).toThrow('HG_OPTION_INVALID: "defaultOutput" is 1.5')
  expect(() => requestReader({ mediaTokens: -1 })).toThrow('HG_OPTION_INVALID')
  expect(() => requestReader({ counts: () => 1 } as EstimateOptions)).toThrow('did you mean "count"?')
})
