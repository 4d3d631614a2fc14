// What a call costs is known only afterwards: reserve an estimate, then settle to what was used.
import { createGate } from 'headgate'

interface Prompt {
  readonly org: string
  readonly text: string
  readonly maxTokens: number
}

// #region gate
const gate = createGate({
  limits: {
    tokens: { limit: '10_000/day calendar', by: (prompt: Prompt) => prompt.org },
    calls: { limit: '60/min', by: (prompt) => prompt.org, cost: () => 1 },
  },
})
// #endregion

// #region complete
async function complete(prompt: Prompt): Promise<string> {
  const estimate = Math.ceil(prompt.text.length / 4) + prompt.maxTokens
  const decision = gate.take(prompt, { cost: estimate })
  if (!decision.ok) return `refused by ${decision.violated}, it asked for ${estimate} tokens`
  try {
    const { tokens } = await model(prompt)
    decision.settle(tokens) // `tokens` only: `calls` has a cost of its own
    return `reserved ${estimate}, used ${tokens}, left today ${tokensLeft(prompt)}`
  } catch {
    decision.refund() // nothing was used
    return `failed, left today ${tokensLeft(prompt)}`
  }
}
// #endregion

function tokensLeft(prompt: Prompt): number | undefined {
  return gate.peek(prompt).limits.find(({ name }) => name === 'tokens')?.remaining
}

/** Stands for a language model: answers with a quarter of what it may, fails on an empty prompt, rambles when asked to. */
async function model({ text, maxTokens }: Prompt): Promise<{ tokens: number }> {
  if (text === '') throw new Error('empty prompt')
  return { tokens: text === 'Ramble!' ? maxTokens + 1_500 : Math.ceil(text.length / 4) + maxTokens / 4 }
}

const ask = async (text: string) => console.log(await complete({ org: 'acme', text, maxTokens: 4_000 }))

await ask('Why is the sky blue?')
await ask('')
await ask('Ramble!')
await ask('And why is the sunset red?')
