import { type ChaosOptions, type ChaosRun, runChaos } from './run.ts'

/** One run, or one after the other: each is told as soon as it is over. */
export interface ChaosRequest extends ChaosOptions {
  readonly runs: number
}

export type ChaosReply = { readonly run: ChaosRun } | { readonly error: string }

const scope = self as unknown as {
  onmessage: (event: { readonly data: ChaosRequest }) => void
  postMessage(reply: ChaosReply): void
}

scope.onmessage = async ({ data: { seed, runs, ...options } }) => {
  try {
    for (let i = 0; i < runs; i++) scope.postMessage({ run: await runChaos({ ...options, seed: seed + i }) })
  } catch (error) {
    scope.postMessage({ error: String(error) })
  }
}
