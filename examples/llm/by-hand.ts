// A call that is not made by `fetch`: reserve before, settle after.

/** Stands in for a client of yours. */
const client = {
  async create(_body: object) {
    return { text: 'Hello', usage: { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 } }
  },
  async *stream(_body: object) {
    yield 'data: {"choices":[{"delta":{"content":"Hello, how are you?"}}]}\n\n'
    yield 'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":6}}\n\n'
  },
}

// #region settle
import { llmBudget, readUsage } from 'headgate/llm'

const budget = llmBudget<string>({
  by: (team) => team,
  limits: { requests: '60/min', tokens: '100000/min' },
  onSettled: ({ caller, charged }) => console.log(caller, charged),
})

export async function answer(team: string, body: object): Promise<string> {
  const call = await budget.reserve(team, body)
  if (!call.ok) throw new Error(`try again in ${call.decision.retryAfterMs} ms`)
  try {
    const { text, ...rest } = await client.create(body)
    await call.settle(readUsage(rest) ?? {}) // what is not known stays as estimated
    return text
  } catch (error) {
    await call.fail() // tokens come back, the request counts
    throw error
  }
}
// #endregion

// #region listen
export async function* streamed(team: string, body: object): AsyncGenerator<string> {
  const call = await budget.reserve(team, body)
  if (!call.ok) throw new Error(`try again in ${call.decision.retryAfterMs} ms`)
  const listener = call.listen('text/event-stream')
  try {
    for await (const chunk of client.stream(body)) {
      listener.push(chunk)
      yield chunk
    }
    await listener.end()
  } catch (error) {
    await listener.breakOff(error)
    throw error
  } finally {
    await listener.abort() // whoever reads has left; does nothing if it has ended before
  }
}
// #endregion
