// What the workers of all benchmarks share: the child's side of harness.ts. A worker does one job in a process of its own.
import type { Figures, Job } from './harness.ts'
import type { Rival } from './rivals/rival.ts'

/** Measures once more, in a process that stays. */
export type Turn = () => Promise<Figures>

/** Does the one job, reports, ends; or reports by turns, until whoever asked is gone. Exits by itself because some rivals leave
 *  timers and connections behind. */
export async function answer(
  measure: Readonly<Record<string, (job: Job) => Promise<Figures | Turn> | Figures>>,
): Promise<void> {
  const job = JSON.parse(process.argv[2] ?? '{}') as Job
  const work = measure[job.scenario]
  if (work === undefined) throw new Error(`no scenario ${job.scenario}`)
  process.once('disconnect', () => process.exit(1)) // whoever asked is gone
  process.once('SIGTERM', () => process.exit(0)) // no more turns: what it started ends with it
  const done = await work(job)
  if (typeof done !== 'function') return void process.send?.(done, () => process.exit(0))
  process.on('message', async () => process.send?.(await done()))
  process.send?.({})
}

/** A limiter that does not limit would win every comparison. The rival has a limit of 5 per key. */
export async function verify(name: string, rival: Rival): Promise<Figures> {
  const got: boolean[] = []
  for (const key of ['a', 'a', 'a', 'a', 'a', 'a', 'b', 'a']) got.push(await takeOne(rival, key))
  const expected = [true, true, true, true, true, false, true, false]
  if (String(got) !== String(expected)) throw new Error(`${name} answered ${got} to 5 per key, expected ${expected}`)
  return { ok: 1 }
}

/** One decision, timed or not: for filling, verifying and sampling, where the extra await does not count. */
export async function takeOne(rival: Rival, key: string): Promise<boolean> {
  if (rival.kind === 'sync') return rival.take(key)
  try {
    return rival.read(await rival.take(key))
  } catch (answer) {
    if (answer instanceof Error) throw answer
    return rival.read(answer)
  }
}

/** Lets timers, immediates and the tasks of the garbage collector run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
