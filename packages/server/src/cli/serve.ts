import { RulesError } from '../config/problem.ts'
import { createLog } from '../log.ts'
import { serve } from '../serve.ts'
import type { Terminal } from './index.ts'

/** Runs until SIGTERM or SIGINT; SIGHUP reads the rules again. */
export async function serveCommand(file: string | undefined, { env, err }: Terminal): Promise<number> {
  const log = createLog('info')
  try {
    const running = await serve({ ...(file !== undefined && { file }), env, log })
    process.on('SIGHUP', () => void running.reload('SIGHUP'))
    await new Promise<void>((resolve) => {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
    })
    await running.stop()
    return 0
  } catch (error) {
    if (!(error instanceof RulesError) && (error as { code?: string }).code !== 'EADDRINUSE') throw error
    err.write(`${(error as Error).message}\n`)
    return 1
  }
}
