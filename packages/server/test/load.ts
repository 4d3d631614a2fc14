/** What many callers were answered. */
export interface Load {
  /** How often each status came. */
  readonly statuses: Map<number, number>
  readonly failures: string[]
  readonly slowestMs: number
  readonly answered: number
  of(status: number): number
  stop(): Promise<Load>
}

/** Callers who each ask again as soon as they are answered, until told to stop. */
export function keepSending(ask: (turn: number) => Promise<number>, { callers = 16 } = {}): Load {
  const statuses = new Map<number, number>()
  const failures: string[] = []
  let [stopped, turn, slowestMs, answered] = [false, 0, 0, 0]

  async function once(): Promise<void> {
    const startMs = performance.now()
    try {
      const status = await ask(turn++)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      answered++
    } catch (error) {
      failures.push(whyOf(error))
    }
    slowestMs = Math.max(slowestMs, performance.now() - startMs)
  }
  async function caller(): Promise<void> {
    while (!stopped && failures.length < 100) await once()
  }

  const all = Promise.all(Array.from({ length: callers }, caller))
  return {
    statuses,
    failures,
    get slowestMs() {
      return slowestMs
    },
    get answered() {
      return answered
    },
    of: (status) => statuses.get(status) ?? 0,
    async stop() {
      stopped = true
      await all
      return this
    },
  }
}

function whyOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

/** The status of a response that came as a whole. */
export async function statusOf(response: Promise<Response>): Promise<number> {
  const answer = await response
  await answer.arrayBuffer()
  return answer.status
}
