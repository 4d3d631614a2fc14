import { HeadgateError, type LimitState, memory, type Store } from 'headgate'
import { type LlmBudget, type LlmBudgetOptions, llmBudget, type Settled, usd } from 'headgate/llm'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { streams } from './usage.cases.ts'

const prices = { 'gpt-4o': { input: 2.5, output: 10 }, 'claude-sonnet-4-5': { input: 3, output: 15 } }
const limits = {
  requests: '10/min',
  input: '1000/min',
  output: '500/min',
  tokens: '10000/day calendar',
  money: usd('1/month calendar'),
}
const day = (limit: number) => ({ limit, per: '1day', algorithm: 'fixed-window', align: 'first-hit' }) as const
/** 10 tokens of input by their bytes. */
const chat = { model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello there' }], max_tokens: 100 }

function rig(more: Partial<LlmBudgetOptions<string, never>> = {}) {
  const clock = fakeClock(Date.UTC(2026, 0, 1))
  const settled: Settled<string>[] = []
  const onSettled = (each: Settled<string>) => settled.push(each)
  const options = { limits, prices, by: (team: string) => team, defaultOutput: 200, clock, onSettled, ...more }
  const budget = llmBudget<string>(options as LlmBudgetOptions<string, never>)
  return { clock, budget, settled, used: (team = 'ann') => usedOf(budget, team) }
}

async function usedOf(budget: LlmBudget<string>, team: string): Promise<Record<string, number>> {
  const used = ({ name, limit, remaining }: LimitState) => [name, limit - remaining] as const
  return Object.fromEntries((await budget.left(team)).map(used))
}

const sse = (text: string, status = 200) =>
  new Response(text, { status, headers: { 'content-type': 'text/event-stream' } })
const json = (body: object, status = 200) => Response.json(body, { status })
const delta = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`

/** A streamed answer in the test's hands: says what it was asked for, and whether it was given up. */
function source(contentType = 'text/event-stream') {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const seen = { pulls: 0, given: undefined as unknown }
  const body = new ReadableStream<Uint8Array>(
    {
      start: (own) => {
        controller = own
      },
      pull: () => {
        seen.pulls++
      },
      cancel: (reason) => {
        seen.given = reason
      },
    },
    { highWaterMark: 0 },
  )
  const send = (text: string) => controller?.enqueue(new TextEncoder().encode(text))
  const fail = (error: Error) => controller?.error(error)
  return { response: new Response(body, { headers: { 'content-type': contentType } }), seen, send, fail }
}

describe('a call is decided by all limits as one', () => {
  test('what it may use is reserved of each', async () => {
    const { budget, used } = rig()
    const call = await budget.reserve('ann', chat)
    expect(call.ok).toBe(true)
    expect(call.reserved).toEqual({ requests: 1, input: 10, output: 100, tokens: 110, money: 10 * 2.5 + 100 * 10 })
    expect(await used()).toEqual(call.reserved)
    expect(await used('bob')).toEqual({ requests: 0, input: 0, output: 0, tokens: 0, money: 0 })
  })

  test('a refusal by one leaves no trace in the others', async () => {
    const { budget, used } = rig()
    const call = await budget.reserve('ann', { ...chat, max_tokens: 501 })
    expect([call.ok, call.decision.limit, call.decision.retryAfterMs]).toEqual([false, 'output', Infinity])
    expect(await used()).toEqual({ requests: 0, input: 0, output: 0, tokens: 0, money: 0 })
    await call.settle({ input: 5, output: 5 })
    await call.refund()
    expect(await used()).toMatchObject({ requests: 0, tokens: 0 })
  })

  test('calls side by side see what the others have reserved', async () => {
    const { budget } = rig()
    const calls = await Promise.all(Array.from({ length: 8 }, () => budget.reserve('ann', chat)))
    expect(calls.map(({ ok }) => ok)).toEqual([true, true, true, true, true, false, false, false])
    await calls[0]?.settle({ input: 10, output: 0 })
    expect((await budget.reserve('ann', chat)).ok).toBe(true)
  })

  test('input that was counted elsewhere is taken as it is', async () => {
    const { budget } = rig()
    expect((await budget.reserve('ann', chat, { input: 77 })).reserved).toMatchObject({ input: 77, tokens: 177 })
    await expect(budget.reserve('ann', chat, { input: -1 })).rejects.toThrow('HG_COST_INVALID: "input" is -1')
  })

  test('limits may count the same for others, by model or by plan', async () => {
    const { budget, used } = rig({
      limits: {
        requests: { limit: { free: '1/min', pro: '100/min' } },
        dear: {
          of: 'requests',
          limit: '1/day',
          when: (_team, { model }) => model.startsWith('claude'),
          by: () => 'all',
        },
        everybody: { of: 'money', limit: usd('5/day'), by: () => 'all' },
        watched: { of: 'output', limit: '250/min', mode: 'observe' },
      },
      tier: (team) => (team === 'ann' ? 'pro' : 'free'),
    })
    const claude = { ...chat, model: 'claude-sonnet-4-5', max_tokens: 50 }
    expect((await budget.reserve('ann', claude)).ok).toBe(true)
    expect((await budget.reserve('bob', claude)).decision.violated).toEqual(['dear'])
    expect((await budget.reserve('bob', chat)).ok).toBe(true)
    expect((await budget.reserve('bob', chat)).decision.violated).toEqual(['requests'])
    expect(await used('ann')).toMatchObject({ requests: 1, everybody: 30 + 750 + 25 + 1_000 })
    const long = await budget.reserve('ann', { ...chat, max_tokens: 300 })
    expect(long.ok).toBe(true)
    await long.settle({ output: 10 })
    expect(await used('ann')).toMatchObject({ requests: 2, watched: 50 })
  })
})

describe('a reservation is settled to what was used', () => {
  test('less comes back', async () => {
    const { budget, used, settled } = rig()
    const call = await budget.reserve('ann', chat)
    await call.settle({ input: 8, output: 20, cachedInput: 4 })
    const charged = { requests: 1, input: 8, output: 20, tokens: 28, money: 220 }
    expect(await used()).toEqual(charged)
    expect(settled).toEqual([
      {
        caller: 'ann',
        request: call.request,
        usage: { input: 8, output: 20, cachedInput: 4 },
        reserved: call.reserved,
        charged,
      },
    ])
  })

  test('more is booked past the limit, and later calls wait for it', async () => {
    const { budget, clock, used } = rig()
    const call = await budget.reserve('ann', chat)
    await call.settle({ input: 10, output: 1_000 })
    expect(await used()).toMatchObject({ output: 500, tokens: 1_010 })
    const next = await budget.reserve('ann', chat)
    // 500 too many, and 100 for the next: at 500 a minute.
    expect([next.ok, next.decision.limit, next.decision.retryAfterMs]).toEqual([false, 'output', 72_000])
    clock.advance(72_000)
    expect((await budget.reserve('ann', chat)).ok).toBe(true)
  })

  test('what the provider did not tell stays as estimated', async () => {
    const { budget, used } = rig()
    await (await budget.reserve('ann', chat)).settle({ output: 5 })
    expect(await used()).toMatchObject({ input: 10, output: 5, tokens: 15 })
    await (await budget.reserve('ann', chat)).settle({})
    expect(await used()).toMatchObject({ input: 20, output: 105, tokens: 125 })
  })

  test('a provider that fails costs a request, but neither tokens nor money', async () => {
    const { budget, used } = rig()
    await (await budget.reserve('ann', chat)).fail()
    expect(await used()).toEqual({ requests: 1, input: 0, output: 0, tokens: 0, money: 0 })
  })

  test('what was never sent costs nothing', async () => {
    const { budget, used } = rig()
    await (await budget.reserve('ann', chat)).refund()
    expect(await used()).toEqual({ requests: 0, input: 0, output: 0, tokens: 0, money: 0 })
  })

  test('the first end counts', async () => {
    const { budget, used, settled } = rig()
    const call = await budget.reserve('ann', chat)
    await Promise.all([
      call.settle({ input: 1, output: 1 }),
      call.settle({ input: 9, output: 9 }),
      call.fail(),
      call.refund(),
    ])
    expect(await used()).toMatchObject({ requests: 1, input: 1, output: 1 })
    expect(settled).toHaveLength(1)
  })

  test('one that never ends stays charged as estimated, and lapses like anything that was used', async () => {
    const { budget, used, clock } = rig()
    await budget.reserve('ann', chat)
    clock.advance(1_000)
    expect(await used()).toMatchObject({ output: 92, tokens: 110, money: 1_025 })
    clock.advance(60_000)
    expect(await used()).toEqual({ requests: 0, input: 0, output: 0, tokens: 110, money: 1_025 })
    clock.advance(86_400_000)
    expect(await used()).toMatchObject({ tokens: 0, money: 1_025 })
    clock.advance(31 * 86_400_000)
    expect(await used()).toMatchObject({ money: 0 })
  })

  test('usage that is none is refused, and the call can still be settled', async () => {
    const { budget, used } = rig()
    const call = await budget.reserve('ann', chat)
    await expect(call.settle({ output: -1 })).rejects.toThrow('HG_COST_INVALID')
    await expect(call.settle({ input: 1.5 })).rejects.toThrow('HG_COST_INVALID')
    await expect(call.settle({ input: 1, output: 1, cachedInput: 0.5 })).rejects.toThrow('HG_COST_INVALID')
    await call.settle({ input: 1, output: 1 })
    expect(await used()).toMatchObject({ tokens: 2 })
  })
})

describe('an answer passes by untouched and settles its call', () => {
  test.each(Object.entries(streams))('streamed: %s', async (_name, { text, used: told, failed }) => {
    const { budget, used } = rig()
    const call = await budget.reserve('ann', { ...chat, stream: true })
    const response = call.watch(sse(text))
    expect(await response.text()).toBe(text)
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const isFree = failed && told.output === 0
    const [input, output] = isFree ? [0, 0] : [told.input ?? 10, told.output as number]
    expect(await used()).toMatchObject({ requests: 1, input, output, tokens: input + output })
  })

  test('in one piece', async () => {
    const { budget, used } = rig()
    const body = { choices: [], usage: { prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 } }
    const response = (await budget.reserve('ann', chat)).watch(json(body))
    expect(await response.json()).toEqual(body)
    expect(await used()).toMatchObject({ input: 12, output: 34, money: 370 })
  })

  test('in one piece that tells nothing: it stays as estimated', async () => {
    const { budget, used } = rig()
    await (await budget.reserve('ann', chat)).watch(json({ hello: 'world' })).text()
    expect(await used()).toMatchObject({ input: 10, output: 100 })
  })

  test('an error costs no tokens', async () => {
    for (const status of [400, 401, 429, 500, 529]) {
      const { budget, used } = rig()
      const response = (await budget.reserve('ann', chat)).watch(json({ error: { message: 'no' } }, status))
      expect(response.status).toBe(status)
      expect(await used()).toEqual({ requests: 1, input: 0, output: 0, tokens: 0, money: 0 })
    }
  })

  test('given up by whoever asked, it is given up at its source, and what flowed is charged', async () => {
    const { budget, used } = rig()
    const { response, seen, send } = source()
    const reader = (await budget.reserve('ann', chat)).watch(response).body?.getReader()
    send(delta('ninechars'))
    await reader?.read()
    expect(await used()).toMatchObject({ output: 100 })
    await reader?.cancel('enough')
    expect(seen.given).toBe('enough')
    expect(await used()).toEqual({ requests: 1, input: 10, output: 3, tokens: 13, money: 55 })
  })

  test('given up before its end, one in one piece stays as estimated: nobody knows what was made', async () => {
    const { budget, used } = rig()
    const { response, send } = source('application/json')
    const reader = (await budget.reserve('ann', chat)).watch(response).body?.getReader()
    send('{ "choices": ')
    await reader?.read()
    await reader?.cancel()
    expect(await used()).toMatchObject({ input: 10, output: 100 })
  })

  test('broken off by the provider, what flowed is charged, and whoever reads is told', async () => {
    const { budget, used } = rig()
    const { response, send, fail } = source()
    const reader = (await budget.reserve('ann', chat)).watch(response).body?.getReader()
    send(delta('ninechars'))
    await reader?.read()
    fail(new Error('connection lost'))
    await expect(reader?.read()).rejects.toThrow('connection lost')
    expect(await used()).toMatchObject({ input: 10, output: 3 })
  })

  test('broken off before anything came, it costs a request', async () => {
    const { budget, used } = rig()
    const { response, fail } = source()
    const text = (await budget.reserve('ann', chat)).watch(response).text()
    fail(new Error('connection lost'))
    await expect(text).rejects.toThrow('connection lost')
    expect(await used()).toEqual({ requests: 1, input: 0, output: 0, tokens: 0, money: 0 })
  })

  test('given up by a signal before anything came, it costs its input: the provider has read it', async () => {
    const { budget, used } = rig()
    const { response, fail } = source()
    const text = (await budget.reserve('ann', chat)).watch(response).text()
    fail(new DOMException('gone', 'AbortError'))
    await expect(text).rejects.toThrow('gone')
    expect(await used()).toMatchObject({ requests: 1, input: 10, output: 0 })
  })

  test('it is read no faster than it is asked for', async () => {
    const { budget } = rig()
    const { response, seen, send } = source()
    const reader = (await budget.reserve('ann', chat)).watch(response).body?.getReader()
    await Promise.resolve()
    expect(seen.pulls).toBe(0)
    const first = reader?.read()
    send(delta('a'))
    await first
    expect(seen.pulls).toBe(1)
  })

  test('a hook that fails later breaks nothing', async () => {
    const failing = rig({ onSettled: () => Promise.reject(new Error('no database')) })
    const call = await failing.budget.reserve('ann', chat)
    await call.settle({ input: 1, output: 1 })
    await new Promise((resolve) => setTimeout(resolve)) // where nobody has caught it, the process would end
    expect(await failing.used()).toMatchObject({ tokens: 2 })
  })

  test('an answer without a body is settled as estimated', async () => {
    const { budget, settled } = rig()
    const call = await budget.reserve('ann', chat)
    call.watch(new Response(null, { status: 204 }))
    await call.settle({}) // done when the first end is
    expect(settled).toHaveLength(1)
  })

  test('a hook that throws breaks nothing', async () => {
    const onSettled = () => {
      throw new Error('out of order')
    }
    const { budget, used } = rig({ onSettled })
    expect(await (await budget.reserve('ann', chat)).watch(sse(delta('ninechars'))).text()).toBe(delta('ninechars'))
    expect(await used()).toMatchObject({ output: 3 })
  })
})

describe('an answer that flows past its reservation is booked as it flows', () => {
  test('so that others see it before it is over', async () => {
    const { budget, used } = rig({ limits: { ...limits, output: '5000/min' } })
    const { response, send } = source()
    const call = await budget.reserve('ann', { ...chat, stream: true })
    const reader = call.watch(response).body?.getReader()
    const seen: number[] = []
    for (let i = 0; i < 6; i++) {
      send(delta('x'.repeat(600)))
      await reader?.read()
      seen.push((await used()).output as number)
    }
    // Each 200 by their bytes, of which 150 are certain; 100 are reserved, and steps are of 256.
    expect(seen).toEqual([100, 100, 450, 450, 750, 750])
    expect(await used()).toMatchObject({ input: 10, tokens: 760, money: 25 + 7_500 })
    send(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1_100 } })}\n\n`)
    await reader?.read()
    await reader?.cancel()
    expect(await used()).toEqual({ requests: 1, input: 9, output: 1_100, tokens: 1_109, money: 23 + 11_000 })
  })

  test('also where there is one limit alone, and less than was booked is given back', async () => {
    const { budget, used } = rig({ limits: { output: '5000/min' } })
    const { response, send } = source()
    const reader = (await budget.reserve('ann', chat)).watch(response).body?.getReader()
    send(delta('x'.repeat(1_800)))
    await reader?.read()
    expect(await used()).toEqual({ output: 450 })
    send(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 400 } })}\n\n`)
    await reader?.read()
    await reader?.cancel()
    expect(await used()).toEqual({ output: 400 })
  })

  test('input that turns out to be more is booked as soon as it is told', async () => {
    const { budget, used } = rig({ limits: { input: '5000/min', output: '500/min' } })
    const { response, send } = source()
    const reader = (await budget.reserve('ann', chat)).watch(response).body?.getReader()
    send(
      `data: ${JSON.stringify({ type: 'message_start', message: { usage: { input_tokens: 2_000, output_tokens: 1 } } })}\n\n`,
    )
    await reader?.read()
    expect(await used()).toEqual({ input: 2_000, output: 100 })
  })
})

test('a call is over when the store knows all of it, also what was booked while it flowed', async () => {
  const counts = memory()
  let held: Promise<void> | undefined
  const slow: Store = {
    run: async (groups, nowUs) => {
      await held
      return counts.run(groups, nowUs)
    },
  }
  const budget = llmBudget<string, Store>({ store: slow, limits: { output: day(5_000) }, timeoutMs: 10_000 })
  const listener = (await budget.reserve('ann', chat)).listen('text/event-stream')
  let release = () => {}
  held = new Promise((resolve) => {
    release = resolve
  })
  listener.push(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 900 } })}\n\n`)
  held = undefined
  let isOver = false
  const over = listener.end().then(() => {
    isOver = true
  })
  expect((await budget.left('ann'))[0]?.remaining).toBe(4_900)
  expect(isOver).toBe(false)
  release()
  await over
  expect((await budget.left('ann'))[0]?.remaining).toBe(4_100)
})

describe('a call from beginning to end', () => {
  test('is sent and handed on with the limits of the caller, not those of the provider', async () => {
    const { budget, used } = rig()
    const theirs = {
      'x-ratelimit-remaining-requests': '4999',
      'x-ratelimit-limit-tokens': '30000000',
      'x-request-id': 'r1',
    }
    const answer = () => Response.json({ usage: { prompt_tokens: 1, completion_tokens: 2 } }, { headers: theirs })
    const response = await budget.call('ann', chat, answer)
    const fields = Object.fromEntries(response.headers)
    expect(fields).toMatchObject({
      'x-request-id': 'r1',
      'x-ratelimit-remaining-requests': '9',
      'x-ratelimit-limit-tokens': '500',
    })
    await response.text()
    expect(await used()).toMatchObject({ input: 1, output: 2 })
  })

  test('is refused as OpenAI would', async () => {
    const { budget } = rig({ limits: { requests: '1/min' } })
    await budget.call('ann', chat, () => json({}))
    const response = await budget.call('ann', chat, () => expect.unreachable())
    expect(response.status).toBe(429)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'retry-after': '60',
      'x-ratelimit-reset-requests': '1m0s',
    })
    expect(await response.json()).toEqual({
      error: {
        message: 'The limit "requests" is reached; try again in 60 s',
        type: 'rate_limit_error',
        param: null,
        code: 'rate_limit_exceeded',
      },
    })
  })

  test('is refused as Anthropic would, and not to be tried again where that is in vain', async () => {
    const { budget } = rig()
    const body = { ...chat, model: 'claude-sonnet-4-5', max_tokens: 9_000 }
    const response = await budget.call('ann', body, () => expect.unreachable(), { path: '/v1/messages' })
    const fields = Object.fromEntries(response.headers)
    expect(fields).toMatchObject({ 'x-should-retry': 'false', 'anthropic-ratelimit-output-tokens-remaining': '500' })
    expect(fields).not.toHaveProperty('retry-after')
    expect(await response.json()).toEqual({
      type: 'error',
      error: {
        type: 'rate_limit_error',
        message: 'This call is more than the limit "output" ever lets through; ask for less',
      },
    })
  })

  test('is refused with 503 while the store cannot count and nobody may pass', async () => {
    const broken = { run: () => Promise.reject(new Error('down')) }
    const budget = llmBudget({ store: broken as never, limits: { requests: '1/min' }, onStoreError: 'deny' })
    const response = await budget.call('ann', chat, () => expect.unreachable())
    expect([response.status, await response.json()]).toMatchObject([503, { error: { type: 'server_error' } }])
  })

  test('that is given up for a reason of its own stays as reserved, if its signal is known', async () => {
    const { budget, used } = rig()
    const gone = new AbortController()
    const send = async () => {
      gone.abort(new Error('the client left'))
      throw gone.signal.reason
    }
    await expect(budget.call('ann', chat, send, { signal: gone.signal })).rejects.toThrow('the client left')
    expect(await used()).toMatchObject({ output: 100 })
    await expect(budget.call('bob', chat, send)).rejects.toThrow('the client left')
    expect(await used('bob')).toMatchObject({ output: 0 })
  })

  test('that cannot be sent costs a request; one that was given up meanwhile also what it had sent', async () => {
    const { budget, used } = rig()
    const failing = (error: Error) => () => Promise.reject(error)
    await expect(budget.call('ann', chat, failing(new TypeError('fetch failed')))).rejects.toThrow('fetch failed')
    expect(await used()).toEqual({ requests: 1, input: 0, output: 0, tokens: 0, money: 0 })
    const aborted = new DOMException('gone', 'AbortError')
    await expect(budget.call('ann', { ...chat, stream: true }, failing(aborted))).rejects.toThrow('gone')
    expect(await used()).toMatchObject({ requests: 2, input: 10, output: 0 })
    await expect(budget.call('ann', chat, failing(aborted))).rejects.toThrow('gone')
    expect(await used()).toMatchObject({ requests: 3, input: 20, output: 100 })
  })
})

test('headers in both styles', async () => {
  const call = await rig().budget.reserve('ann', chat)
  expect(Object.keys(call.headers(['openai', 'anthropic']))).toHaveLength(18)
  expect(call.headers('anthropic')['anthropic-ratelimit-input-tokens-remaining']).toBe('990')
})

test('budgets on one store share what they count', async () => {
  const store = memory()
  const one = llmBudget({ store, limits: { requests: '1/min' } })
  const two = llmBudget({ store, limits: { requests: '1/min' } })
  expect([(await one.reserve('a', chat)).ok, (await two.reserve('b', chat)).ok]).toEqual([true, false])
})

describe('wrong options are refused when a budget is made', () => {
  const wrong: [string, object, string][] = [
    ['no limits', { limits: {} }, 'HG_LIMIT_MISSING'],
    [
      'a unit that nobody knows',
      { limits: { token: '1/min' } },
      'HG_OPTION_INVALID: limit "token" counts "token", which is no unit; did you mean "tokens"?',
    ],
    [
      'a name without a unit',
      { limits: { 'team-month': { limit: '1/min' } } },
      'give "of", one of requests, input, output, tokens, money',
    ],
    [
      'money without prices',
      { limits: { money: usd('1/day') }, prices: undefined },
      'HG_OPTION_CONFLICT: limit "money" counts money',
    ],
    ['a limit without a limit', { limits: { output: {} } }, 'HG_LIMIT_MISSING: limit "output" has no "limit"'],
    ['nothing for a limit', { limits: { requests: null } }, 'HG_LIMIT_MISSING: limit "requests" has no "limit"'],
    ['a limit text that is none', { limits: { requests: '60/minuet' } }, 'HG_LIMIT_TEXT'],
    ['an option that nobody knows', { limit: '1/min' }, 'HG_OPTION_UNKNOWN'],
    [
      'an option of a limit that nobody knows',
      { limits: { requests: { limit: '1/min', units: 'x' } } },
      'HG_OPTION_UNKNOWN',
    ],
    ['a key that is no function', { by: 'team' }, 'HG_OPTION_INVALID: "by" is "team"'],
    [
      'a limit that no answer without a bound ever fits',
      { limits: { output: '100/min' } },
      'HG_OPTION_CONFLICT: limit "output" lets 100 through at once, and 200 are reserved',
    ],
    [
      'the same of a tier',
      { limits: { tokens: { limit: { free: '100/min', pro: '1000/min' } } }, tier: () => 'free' },
      'HG_OPTION_CONFLICT',
    ],
    ['no options', null as never, 'HG_OPTION_INVALID'],
  ]
  test.each(wrong)('%s', (_name, options, message) => {
    const make = () => (options === null ? llmBudget(options as never) : rig(options).budget)
    expect(make).toThrow(HeadgateError)
    expect(make).toThrow(message)
  })

  test('but what fits does, if less is reserved', () => {
    expect(() => rig({ limits: { output: '100/min' }, mostOutput: 100 })).not.toThrow()
    expect(() => rig({ limits: { output: '100/min' }, defaultOutput: 100 })).not.toThrow()
  })
})

test('what is no call is refused', async () => {
  const { budget } = rig()
  await expect(budget.reserve('ann', 'text')).rejects.toThrow('HG_CALL_INVALID')
  await expect(budget.reserve('ann', chat, { path: '/v1/models' })).rejects.toThrow('HG_CALL_INVALID')
  await expect(budget.reserve('ann', { ...chat, model: 'new' })).rejects.toThrow('HG_MODEL_UNKNOWN')
})
