import type { Usage } from './usage.ts'

/** Answers as providers write them, and what they used. */
export const answers: Readonly<Record<string, { readonly answer: unknown; readonly used: Usage | undefined }>> = {
  'chat completions': {
    answer: {
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: {
        prompt_tokens: 1_117,
        completion_tokens: 46,
        total_tokens: 1_163,
        prompt_tokens_details: { cached_tokens: 1_024, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 30, audio_tokens: 0 },
      },
    },
    used: { input: 1_117, output: 46, cachedInput: 1_024, cacheWrite: 0, reasoning: 30 },
  },
  'legacy completions': {
    answer: { object: 'text_completion', usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 } },
    used: { input: 5, output: 7, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  embeddings: {
    answer: { object: 'list', data: [], usage: { prompt_tokens: 8, total_tokens: 8 } },
    used: { input: 8, output: 0, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'the Responses API': {
    answer: {
      object: 'response',
      output: [],
      usage: {
        input_tokens: 328,
        input_tokens_details: { cached_tokens: 128 },
        output_tokens: 52,
        output_tokens_details: { reasoning_tokens: 40 },
        total_tokens: 380,
      },
    },
    used: { input: 328, output: 52, cachedInput: 128, cacheWrite: 0, reasoning: 40 },
  },
  'Anthropic, which leaves its cache out of the input': {
    answer: {
      type: 'message',
      usage: {
        input_tokens: 50,
        cache_creation_input_tokens: 200,
        cache_read_input_tokens: 1_000,
        output_tokens: 30,
        service_tier: 'standard',
      },
    },
    used: { input: 1_250, output: 30, cachedInput: 1_000, cacheWrite: 200, reasoning: 0 },
  },
  'Anthropic without a cache': {
    answer: { type: 'message', usage: { input_tokens: 50, cache_read_input_tokens: null, output_tokens: 30 } },
    used: { input: 50, output: 30, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'a provider that leaves thoughts out of the answer, but not out of the total': {
    answer: { usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 115 } },
    used: { input: 10, output: 105, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'an event that carries a whole answer': {
    answer: { type: 'response.completed', response: { usage: { input_tokens: 3, output_tokens: 4 } } },
    used: { input: 3, output: 4, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'numbers that are none': {
    answer: { usage: { prompt_tokens: '10', completion_tokens: -4, total_tokens: null } },
    used: undefined,
  },
  'all zeros, which nobody uses': {
    answer: { usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } },
    used: undefined,
  },
  'Anthropic with all its input from a cache': {
    answer: { usage: { input_tokens: 0, cache_read_input_tokens: 90, output_tokens: 0 } },
    used: { input: 90, output: 0, cachedInput: 90, cacheWrite: 0, reasoning: 0 },
  },
  'no usage': { answer: { choices: [], usage: null }, used: undefined },
  'an error': { answer: { error: { message: 'no', type: 'server_error' } }, used: undefined },
  nothing: { answer: null, used: undefined },
}

export interface Stream {
  readonly text: string
  /** In the end. */
  readonly used: Partial<Usage>
  readonly failed?: true
}

const data = (event: object) => `data: ${JSON.stringify(event)}\n\n`
const named = (event: { readonly type: string }) => `event: ${event.type}\n${data(event)}`
const chat = (fields: object) => data({ object: 'chat.completion.chunk', model: 'gpt-4o', ...fields })
const delta = (content: string, index = 0) => chat({ choices: [{ index, delta: { content } }], usage: null })
const messageStart = (usage: object) => named({ type: 'message_start', message: { role: 'assistant', usage } } as never)
const textDelta = (text: string) =>
  named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } } as never)

/** Streams as they come over the wire. A nine-letter delta is three tokens by its bytes. */
export const streams: Readonly<Record<string, Stream>> = {
  'chat completions that tell their usage at the end': {
    text: [
      chat({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }], usage: null }),
      delta('Hello'),
      delta(' world “日本”'),
      chat({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: null }),
      chat({
        choices: [],
        usage: {
          prompt_tokens: 20,
          completion_tokens: 7,
          total_tokens: 27,
          prompt_tokens_details: { cached_tokens: 4 },
          completion_tokens_details: { reasoning_tokens: 2 },
        },
      }),
      'data: [DONE]\n\n',
    ].join(''),
    used: { input: 20, output: 7, cachedInput: 4, cacheWrite: 0, reasoning: 2 },
  },
  'chat completions that tell none': {
    text: `${delta('ninechars')}${delta('ninechars', 1)}data: [DONE]\n\n`,
    used: { output: 6 },
  },
  'chat completions that break off': { text: `${delta('ninechars')}data: {"choices":[{"del`, used: { output: 3 } },
  'tool calls, refusals and thoughts that flow': {
    text: [
      chat({
        choices: [{ delta: { tool_calls: [{ id: 'call_123456789', function: { name: 'abc', arguments: '' } }] } }],
      }),
      chat({ choices: [{ delta: { tool_calls: [{ function: { arguments: 'abcdef' } }] } }] }),
      chat({ choices: [{ delta: { refusal: 'abc' } }] }),
      chat({ choices: [{ delta: { reasoning_content: 'abc' } }] }),
      chat({ choices: [{ delta: { content: [{ type: 'text', text: 'abc' }] } }] }),
    ].join(''),
    used: { output: 6 },
  },
  'usage with every chunk, from the start each time': {
    text: [1, 2, 3]
      .map((n) =>
        chat({ choices: [{ delta: { content: 'ninechars' } }], usage: { prompt_tokens: 9, completion_tokens: n } }),
      )
      .join(''),
    used: { input: 9, output: 3, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'zeros with every chunk tell nothing': {
    text: [1, 2]
      .map(() =>
        chat({ choices: [{ delta: { content: 'ninechars' } }], usage: { prompt_tokens: 0, completion_tokens: 0 } }),
      )
      .join(''),
    used: { output: 6 },
  },
  'legacy completions': {
    text: `${data({ choices: [{ text: 'ninechars', index: 0 }] })}data: [DONE]\n\n`,
    used: { output: 3 },
  },
  'the Responses API': {
    text: [
      named({ type: 'response.created', response: { status: 'in_progress', usage: null } } as never),
      named({ type: 'response.output_text.delta', delta: 'ninechars' } as never),
      named({ type: 'response.output_text.done', text: 'ninechars' } as never),
      named({
        type: 'response.completed',
        response: {
          output: [{ content: [{ type: 'output_text', text: 'ninechars' }] }],
          usage: {
            input_tokens: 37,
            output_tokens: 11,
            output_tokens_details: { reasoning_tokens: 8 },
            total_tokens: 48,
          },
        },
      } as never),
    ].join(''),
    used: { input: 37, output: 11, cachedInput: 0, cacheWrite: 0, reasoning: 8 },
  },
  'the Responses API, broken off': {
    text: [
      named({ type: 'response.output_text.delta', delta: 'ninechars' } as never),
      named({ type: 'response.function_call_arguments.delta', delta: 'ninechars' } as never),
      named({ type: 'response.output_audio.delta', delta: 'ninechars' } as never),
    ].join(''),
    used: { output: 6 },
  },
  'the Responses API, failed': {
    text: [
      named({ type: 'response.created', response: { usage: null } } as never),
      named({ type: 'response.failed', response: { error: { code: 'server_error' }, usage: null } } as never),
    ].join(''),
    used: { output: 0 },
    failed: true,
  },
  'Anthropic, which counts its output from the start each time': {
    text: [
      messageStart({
        input_tokens: 25,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 10,
        output_tokens: 1,
      }),
      named({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as never),
      named({ type: 'ping' }),
      textDelta('ninechars'),
      textDelta('ninechars'),
      named({ type: 'content_block_stop', index: 0 } as never),
      named({ type: 'message_delta', delta: { stop_reason: null }, usage: { output_tokens: 12 } } as never),
      named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 15 } } as never),
      named({ type: 'message_stop' }),
    ].join(''),
    used: { input: 135, output: 15, cachedInput: 100, cacheWrite: 10, reasoning: 0 },
  },
  'Anthropic, broken off: what it told, and what flowed since': {
    text: `${messageStart({ input_tokens: 25, output_tokens: 1 })}${textDelta('ninechars')}`,
    used: { input: 25, output: 4, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'Anthropic with thoughts and tools, broken off': {
    text: [
      messageStart({ input_tokens: 25, output_tokens: 0 }),
      named({ type: 'content_block_delta', delta: { type: 'thinking_delta', thinking: 'ninechars' } } as never),
      named({ type: 'content_block_delta', delta: { type: 'signature_delta', signature: 'x'.repeat(900) } } as never),
      named({ type: 'content_block_delta', delta: { type: 'input_json_delta', partial_json: '{"a": 1}!' } } as never),
    ].join(''),
    used: { input: 25, output: 6, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
  },
  'Anthropic, failed on the way': {
    text: [
      messageStart({ input_tokens: 25, output_tokens: 0 }),
      textDelta('ninechars'),
      named({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } as never),
    ].join(''),
    used: { input: 25, output: 3, cachedInput: 0, cacheWrite: 0, reasoning: 0 },
    failed: true,
  },
  'chat completions, failed at once': {
    text: data({ error: { message: 'The server had an error', type: 'server_error' } }),
    used: { output: 0 },
    failed: true,
  },
  'comments, empty events and fields that nobody knows': {
    text: `: hello\n\n:\nid: 1\nretry: 10\nfoo\n\n\n${delta('ninechars')}: keep-alive\n\ndata\n\ndata:\n\n`,
    used: { output: 3 },
  },
  'data over several lines': {
    text: 'data: {"choices":\ndata: [{"delta":{"content":\ndata:"ninechars"}}]}\n\n',
    used: { output: 3 },
  },
  'what is no JSON, or JSON of another kind': {
    text: 'data: hello\n\ndata: 5\n\ndata: null\n\ndata: []\n\ndata: {"choices":[null,5,{"delta":7}]}\n\n',
    used: { output: 0 },
  },
  nothing: { text: '', used: { output: 0 } },
}
