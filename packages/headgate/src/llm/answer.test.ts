import fc from 'fast-check'
import { AnswerReader, readUsage } from 'headgate/llm'
import { describe, expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { SseReader } from './sse.ts'
import { answers, streams } from './usage.cases.ts'

const contentType = 'text/event-stream; charset=utf-8'
const bytesOf = (text: string) => new TextEncoder().encode(text)

describe('usage is read from an answer', () => {
  test.each(Object.entries(answers))('%s', (_name, { answer, used }) => {
    expect(readUsage(answer)).toEqual(used)
    const reader = new AnswerReader({ contentType: 'application/json' })
    reader.push(JSON.stringify(answer))
    expect(reader.usage).toEqual({})
    reader.end()
    expect(reader.usage).toEqual(used ?? {})
  })

  test('also from one that is too long to be kept, as many embeddings are', () => {
    const used = { prompt_tokens: 5_000, total_tokens: 5_000, note: 'a } in "quotes"' }
    const data = Array.from({ length: 2_000 }, () => Array.from({ length: 100 }, () => 0.123_456_789))
    const bytes = bytesOf(JSON.stringify({ object: 'list', data, usage: used, model: 'embed' }))
    expect(bytes.length).toBeGreaterThan(2_000_000)
    const reader = new AnswerReader({ contentType: 'application/json' })
    for (let at = 0; at < bytes.length; at += 16_384) reader.push(bytes.subarray(at, at + 16_384))
    reader.end()
    expect(reader.usage).toMatchObject({ input: 5_000, output: 0 })
  })

  test('a long answer cannot tell a usage of its own in a text', () => {
    const text = `${'a'.repeat(1_100_000)} "usage": {"prompt_tokens": 0, "completion_tokens": 0}`
    const usage = { prompt_tokens: 10, completion_tokens: 300_000 }
    const reader = new AnswerReader({ contentType: 'application/json' })
    reader.push(JSON.stringify({ usage, choices: [{ message: { content: text } }] }))
    reader.end()
    expect(reader.usage).toEqual({})
  })

  test.each(['not JSON', '', '{"usage":', '[]', '"usage"'])('nothing from %j', (text) => {
    const reader = new AnswerReader({ contentType: undefined })
    reader.push(text)
    reader.end()
    expect([reader.usage, reader.failed, reader.silent]).toEqual([{}, false, true])
  })
})

describe('usage is read from a stream', () => {
  test.each(Object.entries(streams))('%s', (_name, { text, used, failed = false }) => {
    const reader = new AnswerReader({ contentType })
    reader.push(text)
    reader.end()
    expect(reader.usage).toEqual(used)
    expect(reader.failed).toBe(failed)
  })

  test('however it is cut, with any ends of lines, as text or bytes', () => {
    const cases = Object.values(streams)
    const cuts = fc.array(fc.nat(), { maxLength: 40 })
    fc.assert(
      fc.property(
        fc.constantFrom(...cases),
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.boolean(),
        cuts,
        (stream, end, asText, at) => {
          const whole = stream.text.replaceAll('\n', end)
          const source: Uint8Array | string = asText ? whole : bytesOf(`\uFEFF${whole}`)
          const ends = [...new Set(at.map((each) => each % (source.length + 1)))].sort((a, b) => a - b)
          const reader = new AnswerReader({ contentType })
          let from = 0
          for (const to of [...ends, source.length]) {
            reader.push(source.slice(from, to))
            from = to
          }
          reader.end()
          expect(reader.usage).toEqual(stream.used)
          expect(reader.failed).toBe(stream.failed === true)
        },
      ),
      runs(500),
    )
  })

  test.each(['\n', '\r\n', '\r'])('byte by byte, with lines that end in %j', (end) => {
    for (const { text, used } of Object.values(streams)) {
      const reader = new AnswerReader({ contentType })
      for (const byte of bytesOf(text.replaceAll('\n', end))) reader.push(Uint8Array.of(byte))
      reader.end()
      expect(reader.usage).toEqual(used)
    }
  })

  test('while it flows, what is known never shrinks but when the provider corrects it', () => {
    const { text } = streams['Anthropic, which counts its output from the start each time'] as { text: string }
    const reader = new AnswerReader({ contentType })
    const seen = text.split('\n\n').map((event) => {
      reader.push(`${event}\n\n`)
      return reader.usage.output
    })
    expect(seen).toEqual([1, 1, 1, 4, 7, 7, 12, 15, 15, 15])
  })

  test('a counter of your own counts what flows; one that fails breaks nothing', () => {
    const { text } = streams['chat completions that tell none'] as { text: string }
    const outputBy = (count: (text: string, model: string) => number) => {
      const reader = new AnswerReader({ contentType, count, model: 'm' })
      reader.push(text)
      return reader.usage.output
    }
    expect(outputBy((_text, model) => (model === 'm' ? 5 : 0))).toBe(10)
    expect(outputBy(() => Number.NaN)).toBe(6)
    expect(
      outputBy(() => {
        throw new Error('out of order')
      }),
    ).toBe(6)
  })
})

describe('no stream breaks the reader', () => {
  test('neither random bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 })), (chunks) => {
        const reader = new AnswerReader({ contentType })
        for (const chunk of chunks) reader.push(chunk)
        reader.end()
        expect(reader.usage.output).toBeGreaterThanOrEqual(0)
      }),
      runs(200),
    )
  })

  test('nor events of any shape', () => {
    const word = fc.constantFrom(
      'usage',
      'choices',
      'delta',
      'content',
      'response',
      'message',
      'error',
      'type',
      'text',
      'input_tokens',
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.oneof(fc.integer(), fc.double(), fc.string(), fc.constant(null)),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(word, tie('value'), { maxKeys: 4 }),
      ),
    }))
    fc.assert(
      fc.property(fc.array(value, { maxLength: 5 }), (events) => {
        const reader = new AnswerReader({ contentType })
        for (const event of events) reader.push(`data: ${JSON.stringify(event)}\n\n`)
        reader.end()
        expect(Number.isSafeInteger(reader.usage.output)).toBe(true)
      }),
      runs(300),
    )
  })

  test('an event that is too long is passed over and not held, in one piece or many; the next one is read', () => {
    for (const [size, between] of [
      [1, ''],
      [100, ''],
      [10, '\ndata: '],
    ] as const) {
      const seen: string[] = []
      const reader = new SseReader((data) => seen.push(data), 100)
      reader.push('data: first\n\ndata: ')
      for (let sent = 0; sent < 1_000; sent += size) reader.push(`${'x'.repeat(size)}${between}`)
      reader.push('\nevent: end\n\ndata: last\n\n')
      expect(seen).toEqual(['first', 'last'])
    }
  })

  test('comments without end are not held', () => {
    const seen: string[] = []
    const reader = new SseReader((data) => seen.push(data), 100)
    reader.push('data: kept\n')
    for (let i = 0; i < 100; i++) reader.push(': keep-alive\n')
    reader.push('\n')
    expect(seen).toEqual(['kept'])
  })
})
