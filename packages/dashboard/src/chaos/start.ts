import type { ChaosRun } from './run.ts'
import type { ChaosReply, ChaosRequest } from './worker.ts'

/** Where the build has put it. */
declare const CHAOS_WORKER: string

interface Policy {
  createScriptURL(url: string): string
}
interface TrustedTypes {
  createPolicy(name: string, rules: Policy): Policy
}

/** The page may start this one script and no other. */
const { trustedTypes } = globalThis as { readonly trustedTypes?: TrustedTypes }
const policy = trustedTypes?.createPolicy('headgate', { createScriptURL: () => CHAOS_WORKER })

export interface Listener {
  onRun(run: ChaosRun): void
  onError(error: Error): void
}

/** Simulates beside the page, which stays at hand, until it is done or stopped. */
export function startChaos(request: ChaosRequest, { onRun, onError }: Listener): () => void {
  const worker = new Worker(policy?.createScriptURL(CHAOS_WORKER) ?? CHAOS_WORKER, { type: 'module' })
  worker.onmessage = ({ data }: MessageEvent<ChaosReply>) =>
    'run' in data ? onRun(data.run) : onError(new Error(data.error))
  worker.onerror = () => onError(new Error('The simulator could not be loaded.'))
  worker.postMessage(request)
  return () => worker.terminate()
}
