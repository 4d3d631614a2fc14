import fc from 'fast-check'
import { type LimitState, memory, type Store } from 'headgate'
import { type LlmBudget, llmBudget, type Settled } from 'headgate/llm'
import type { RedisStore } from 'headgate/redis'
import { fakeClock } from 'headgate/testing'
import { beforeEach, describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { runs } from '../properties/support.ts'

/** How a call goes, and how it ends. */
const endings = ['answered', 'untold', 'aborted', 'broken', 'failed', 'errored', 'refunded', 'never'] as const
interface Plan {
  readonly ending: (typeof endings)[number]
  readonly shape: 'openai' | 'anthropic'
  readonly maxTokens: number
  /** Lengths of the pieces that flow before the end. */
  readonly pieces: readonly number[]
  readonly input: number
  readonly output: number
}
const plans: fc.Arbitrary<Plan> = fc.record({
  ending: fc.constantFrom(...endings),
  shape: fc.constantFrom('openai', 'anthropic'),
  maxTokens: fc.integer({ min: 1, max: 400 }),
  pieces: fc.array(fc.integer({ min: 0, max: 900 }), { maxLength: 5 }),
  input: fc.integer({ min: 1, max: 300 }),
  output: fc.integer({ min: 0, max: 900 }),
})

const FULL = { requests: 12, input: 2_000, output: 2_000, tokens: 3_000, money: 30_000 }
const prices = { m: { input: 2.5, output: 10, cachedInput: 0.3 } }
/** A day's window does not grow while this runs, so what is left is what was not charged. */
const day = (limit: number) => ({ limit, per: '1day', algorithm: 'fixed-window', align: 'first-hit' }) as const
/** Once so tight that calls are refused, once so wide that no sum is cut off at nothing left. */
const widths = fc.constantFrom(1, 10)
const wide = (width: number): Sums =>
  Object.fromEntries(Object.entries(FULL).map(([name, each]) => [name, each * width]))
const limitsOf = <L>(full: Sums, limit: (count: number) => L) =>
  Object.fromEntries(Object.entries(full).map(([name, count]) => [name, limit(count)]))

describe('in memory', () => {
  const store = memory()
  addsUp(() => [store, store])
})

describe.skipIf(!canStartRedis)('in Redis, asked by two processes', () => {
  const own = rig()
  let stores: RedisStore[]
  beforeEach(async () => {
    stores = [await own.store(), await own.store()]
  })
  addsUp(() => stores)
})

function addsUp(storesOf: () => Store[]): void {
  let teams = 0
  test('what is reserved, settled and given back adds up exactly, with calls side by side that end in every way', async () => {
    const seen = new Map<string, number>()
    await fc.assert(
      fc.asyncProperty(fc.array(plans, { minLength: 2, maxLength: 14 }), widths, async (all, width) => {
        const full = wide(width)
        const team = `team-${teams++}`
        const settled: Settled<string>[] = []
        const onSettled = (each: Settled<string>) => settled.push(each)
        const options = { limits: limitsOf(full, day), prices, by: (each: string) => each, onSettled, ...patient }
        const budgets = storesOf().map((store) => llmBudget<string, Store>({ ...options, store, defaultOutput: 100 }))
        const [budget] = budgets as [LlmBudget<string>]
        const charged = await Promise.all(all.map((plan, i) => make(budgets[i % budgets.length] ?? budget, team, plan)))
        for (const [i, sums] of charged.entries()) {
          const ending = sums === undefined ? 'refused' : (all[i] as Plan).ending
          seen.set(ending, (seen.get(ending) ?? 0) + 1)
        }
        expect(await leftOf(budget, team)).toEqual(leftAfter(full, charged))
        // What is told of each call is what was charged for it: the same sum, but for those that never end or were taken back.
        const open = charged.filter((_, i) => ['never', 'refunded'].includes((all[i] as Plan).ending))
        expect(await leftOf(budget, team)).toEqual(leftAfter(full, [...settled.map((each) => each.charged), ...open]))
      }),
      runs(60),
    )
    expect([...seen.keys()].sort()).toEqual([...endings, 'refused'].sort())
  })
}

type Sums = Readonly<Record<string, number>>

function leftAfter(full: Sums, charged: readonly (Sums | undefined)[]): Sums {
  const left: Record<string, number> = { ...full }
  for (const sums of charged) for (const name of Object.keys(FULL)) left[name] = (left[name] ?? 0) - (sums?.[name] ?? 0)
  return Object.fromEntries(Object.entries(left).map(([name, each]) => [name, Math.max(0, each)]))
}

async function leftOf(budget: LlmBudget<string>, team: string): Promise<Sums> {
  return Object.fromEntries((await budget.left(team)).map(({ name, remaining }: LimitState) => [name, remaining]))
}

/** What a call has cost by what it was told, worked out here once more; undefined if it was refused. */
async function make(budget: LlmBudget<string>, team: string, plan: Plan): Promise<Sums | undefined> {
  const { ending, maxTokens, shape } = plan
  const body = { model: 'm', messages: [{ role: 'user', content: 'x'.repeat(plan.input) }], max_tokens: maxTokens }
  const call = await budget.reserve(team, { ...body, stream: true, ...(shape === 'anthropic' && { system: '' }) })
  if (!call.ok) return undefined
  if (ending === 'never') return sumsOf(call.request.input, maxTokens)
  if (ending === 'refunded') {
    await call.refund()
    return sumsOf(0, 0, 0)
  }
  if (ending === 'errored') {
    await call.watch(new Response('{}', { status: 500 })).text()
    await call.fail()
    return sumsOf(0, 0)
  }
  const { events, used } = answerOf(plan, call.request.input)
  await read(call.watch(streamOf(events, ending === 'broken')), ending, events.length)
  return used
}

function sumsOf(input: number, output: number, requests = 1, cached = 0): Sums {
  const money = Math.ceil(((input - cached) * 25 + cached * 3 + output * 100) / 10)
  return { requests, input, output, tokens: input + output, money }
}

/** What flows, and what that comes to. */
function answerOf({ ending, shape, pieces, input, output }: Plan, estimate: number): { events: object[]; used: Sums } {
  const flowed = Math.ceil(pieces.reduce((sum, each) => sum + each, 0) / 3)
  const texts = pieces.map((length) => 'x'.repeat(length))
  const isOpenai = shape === 'openai'
  // The sum so far, of which the start has told the first.
  const told = isOpenai ? output : Math.max(1, output)
  const start = { type: 'message_start', message: { usage: { input_tokens: input, output_tokens: 1 } } }
  const deltas = texts.map((text) =>
    isOpenai
      ? { choices: [{ delta: { content: text } }] }
      : { type: 'content_block_delta', delta: { type: 'text_delta', text } },
  )
  const cached = Math.floor(input / 2)
  const end = isOpenai
    ? {
        choices: [],
        usage: { prompt_tokens: input, completion_tokens: told, prompt_tokens_details: { cached_tokens: cached } },
      }
    : { type: 'message_delta', delta: {}, usage: { output_tokens: told } }
  const failure = { type: 'error', error: { type: 'overloaded_error' } }
  const events: object[] = [...(isOpenai ? [] : [start]), ...deltas]
  if (ending === 'answered') {
    const used = sumsOf(input, told, 1, isOpenai ? cached : 0)
    return { events: [...events, end], used }
  }
  if (ending === 'failed') events.push(failure)
  const isNothing = isOpenai && flowed === 0 && (ending === 'failed' || ending === 'broken')
  const untold = isOpenai ? sumsOf(estimate, flowed) : sumsOf(input, flowed + 1)
  return { events, used: isNothing ? sumsOf(0, 0) : untold }
}

function streamOf(events: readonly object[], isBroken: boolean): Response {
  const encoder = new TextEncoder()
  let at = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const event = events[at++]
      if (event !== undefined) controller.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\n\n`))
      else if (isBroken) controller.error(new Error('connection lost'))
      else controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

async function read(response: Response, ending: Plan['ending'], pieces: number): Promise<void> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  for (let i = 0; i < pieces; i++) await reader.read()
  if (ending === 'aborted') await reader.cancel()
  else if (ending === 'broken') await expect(reader.read()).rejects.toThrow('connection lost')
  else expect(await reader.read()).toMatchObject({ done: true })
}

test('at a steady rate too, as long as what was taken still counts', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(plans, { minLength: 2, maxLength: 14 }), widths, async (all, width) => {
      const full = wide(width)
      const rates = limitsOf(full, (limit) => `${limit}/day`)
      const options = { limits: rates, prices, by: (each: string) => each, clock: fakeClock(), defaultOutput: 100 }
      const budget = llmBudget<string>(options)
      // Nothing comes back beyond what was reserved where a provider tells less than a token for four letters that have flowed.
      const honest = all.map((plan) => ({ ...plan, output: Math.max(plan.output, Math.ceil(sum(plan.pieces) / 4)) }))
      const charged = await Promise.all(honest.map((plan) => make(budget, 'team', plan)))
      expect(await leftOf(budget, 'team')).toEqual(leftAfter(full, charged))
    }),
    runs(60),
  )
})

const sum = (numbers: readonly number[]) => numbers.reduce((all, each) => all + each, 0)
