import { setTimeout as sleep } from 'node:timers/promises'

/** Asks again and again until there is an answer. Servers tell nobody when they are done, so this is the one place that polls. */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined> | T | undefined,
  { withinMs = 30_000 } = {},
): Promise<T> {
  const deadline = performance.now() + withinMs
  let last: unknown
  while (performance.now() < deadline) {
    try {
      const answer = await ask()
      if (answer !== undefined) return answer
    } catch (error) {
      last = error // a server on its way up or down refuses
    }
    await sleep(20)
  }
  throw new Error(`waited ${withinMs} ms in vain for ${what}`, { cause: last })
}
