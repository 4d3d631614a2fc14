// What all benchmarks share: a fresh process per measurement, alternating rounds, medians, tables. Its other half is worker.ts.
// Model: every variant of every round runs in a child process, so that no variant inherits another's heap or compiled code;
// variants alternate (A,B,C, then C,B,A), so that a disturbance hits all of them and a drift cancels out. Servers, which take long
// to warm up, are started together and loaded by turns, so that two figures to compare are a second apart.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

export interface Job {
  readonly scenario: string
  readonly variant: string
  readonly round: number
  readonly quick: boolean
  /** Where the server listens that the benchmark started, if it needs one. */
  readonly port?: number
}

export type Figures = Readonly<Record<string, number>>
/** Variant -> what its child reported in each round, in the order of the rounds. */
export type Rounds = ReadonlyMap<string, readonly Figures[]>

export interface BenchOptions {
  /** What stood behind the benchmark's name: which parts of it to run; none means all. */
  readonly only: readonly string[]
  readonly rounds: number
  readonly quick: boolean
}

/** A goal that was set before measuring; the figure is printed beside it either way. NaN where there was nothing to measure. */
export interface Target {
  readonly what: string
  readonly goal: string
  readonly value: number
  readonly met: boolean
}

export interface Scenario {
  readonly variants: readonly string[]
  /** The scenario whose processes also measure this one. */
  readonly measuredBy?: string
  /** Enough where rounds hardly differ. */
  readonly maxRounds?: number
  /** The variants of a round stay and are measured so many times by turns; each turn counts as a round of its own. */
  readonly turns?: number
  /** Prints what was measured and says which targets it meets. */
  readonly judge: (name: string, rounds: Rounds) => readonly Target[]
}

export interface Report {
  readonly figures: Readonly<Record<string, unknown>>
  readonly targets: readonly Target[]
}

/** Every file of this folder that answers a question exports this as `bench`. */
export type Bench = (options: BenchOptions) => Promise<Report>

const CHILD_TIMEOUT_MS = 180_000
/** If the first full collection of Node 20 finds nothing that `process.nextTick` has queued, its shape is forgotten, and each call takes
 *  five times as long for the life of the process: 5 us of every request, in one server of four, whatever it runs. With room for old
 *  objects from the start that collection does not come while the compiler learns. */
const ROOM_FOR_OLD = '--initial-old-space-size=256'

/** Runs a job in a fresh process, which inherits our flags. */
export async function runChild(worker: URL, job: Job): Promise<Figures> {
  const child = startChild(worker, job)
  const figures = await nextFigures(child, job)
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  if (child.exitCode !== 0) throw new Error(howItEnded(child, job))
  return figures
}

function startChild(worker: URL, job: Job): ChildProcess {
  return fork(worker, [JSON.stringify(job)], {
    execArgv: [...process.execArgv, '--expose-gc', ROOM_FOR_OLD],
    timeout: CHILD_TIMEOUT_MS,
  })
}

/** What the child reports next. */
function nextFigures(child: ChildProcess, job: Job): Promise<Figures> {
  return new Promise((resolve, reject) => {
    const failed = (error: unknown) => reject(error instanceof Error ? error : new Error(howItEnded(child, job)))
    child.once('error', failed).once('exit', failed)
    child.once('message', (figures) => {
      child.off('error', failed).off('exit', failed)
      resolve(figures as Figures)
    })
  })
}

function howItEnded({ exitCode, signalCode }: ChildProcess, { scenario, variant }: Job): string {
  return `${scenario}, ${variant}: the child process ended with ${signalCode ?? `code ${exitCode}`}`
}

/** What one benchmark hands to all of its children. */
interface Run extends BenchOptions {
  readonly worker: URL
  readonly port?: number
}

export async function runScenarios(scenarios: Readonly<Record<string, Scenario>>, run: Run): Promise<Report> {
  const measured = new Map<string, Rounds>()
  const targets: Target[] = []
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (run.only.length > 0 && !run.only.includes(name)) continue
    const measuredBy = scenario.measuredBy ?? name
    const found = measured.get(measuredBy) ?? (await alternate(measuredBy, scenario, run))
    measured.set(measuredBy, found)
    targets.push(...scenario.judge(name, found))
  }
  const figures = [...measured].map(([scenario, found]) => [scenario, Object.fromEntries(found)])
  return { figures: Object.fromEntries(figures), targets }
}

export function refuseUnknown(scenarios: Readonly<Record<string, Scenario>>, only: readonly string[]): void {
  const unknown = only.find((name) => scenarios[name] === undefined)
  if (unknown !== undefined) throw new Error(`no scenario ${unknown}: one of ${Object.keys(scenarios).join(', ')}`)
}

/** Every variant, in a process of its own, before anything is timed: see `verify` in worker.ts. */
export async function verifyAll(variants: readonly string[], { worker, quick, port }: Run): Promise<void> {
  for (const variant of variants) await runChild(worker, { scenario: 'verify', variant, round: 0, quick, port })
  console.log('Verified: every variant allows up to its limit and then denies, key by key.')
}

async function alternate(
  scenario: string,
  { variants, maxRounds = Infinity, turns }: Scenario,
  run: Run,
): Promise<Rounds> {
  const { quick, port } = run
  const rounds = Math.min(run.rounds, maxRounds)
  const results = new Map<string, Figures[]>(variants.map((variant) => [variant, []]))
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? variants : variants.toReversed()
    const jobs = order.map((variant) => ({ scenario, variant, round, quick, port }))
    const note = (what: string) => progress(`${scenario}: round ${round + 1} of ${rounds}, ${what}`)
    const keep = (variant: string, figures: Figures) => void results.get(variant)?.push(figures)
    if (turns === undefined) await oneAfterTheOther(jobs, run, note, keep)
    else await byTurns(jobs, quick ? 1 : turns, run, note, keep)
  }
  progress('')
  return results
}

type Note = (what: string) => void
type Keep = (variant: string, figures: Figures) => void

async function oneAfterTheOther(jobs: readonly Job[], { worker }: Run, note: Note, keep: Keep): Promise<void> {
  for (const job of jobs) {
    note(job.variant)
    keep(job.variant, await runChild(worker, job))
  }
}

/** A child that takes turns says when it is ready, and reports once for each message; without us it ends. */
async function byTurns(jobs: readonly Job[], turns: number, { worker }: Run, note: Note, keep: Keep): Promise<void> {
  const started: { readonly job: Job; readonly child: ChildProcess }[] = []
  try {
    for (const job of jobs) {
      note(`${job.variant} starts`)
      const child = startChild(worker, job)
      started.push({ job, child })
      await nextFigures(child, job)
    }
    for (let turn = 0; turn < turns; turn++) {
      for (const { job, child } of turn % 2 === 0 ? started : started.toReversed()) {
        note(`turn ${turn + 1}, ${job.variant}`)
        const figures = nextFigures(child, job)
        child.send('turn')
        keep(job.variant, await figures)
      }
    }
  } finally {
    for (const { child } of started) child.kill()
  }
}

/** One line that overwrites itself; nothing when the output goes into a file. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

export function valuesOf(rounds: Rounds, variant: string, figure: string): readonly number[] {
  return (rounds.get(variant) ?? []).map((figures) => figures[figure])
}

export function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  )
}

/** Of sorted values, between neighbours where the place is not a whole number. */
export function quantile(sorted: ArrayLike<number>, fraction: number): number {
  const place = (sorted.length - 1) * fraction
  const low = sorted[Math.floor(place)]
  const high = sorted[Math.ceil(place)]
  return low + (high - low) * (place - Math.floor(place))
}

/** Half of the distance between lowest and highest, in percent of the median. */
export function spreadPercent(values: readonly number[]): number {
  return ((Math.max(...values) - Math.min(...values)) / 2 / median(values)) * 100
}

/** Ratios of what was measured in the same round: less disturbed than a ratio of two medians. */
export function ratioPerRound(ours: readonly number[], others: readonly number[]): number {
  return median(ours.map((value, round) => value / others[round]))
}

/** The best of some variants, chosen anew in each round, which is the stricter comparison. */
export function bestOf(
  rounds: Rounds,
  { variants, figure, best }: { variants: readonly string[]; figure: string; best: 'highest' | 'lowest' },
): readonly number[] {
  const all = variants.map((variant) => valuesOf(rounds, variant, figure))
  const pick = best === 'highest' ? Math.max : Math.min
  return all[0].map((_, round) => pick(...all.map((values) => values[round])))
}

export function atLeast(what: string, value: number, goal: number): Target {
  return { what, goal: `>= ${Number(goal.toFixed(2))}`, value, met: value >= goal }
}

export function atMost(what: string, value: number, goal: number): Target {
  return { what, goal: `<= ${goal}`, value, met: value <= goal }
}

export function printTable(title: string, head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((text, column) => Math.max(text.length, ...rows.map((row) => row[column].length)))
  const line = (row: readonly string[]) =>
    row.map((text, i) => (i === 0 ? text.padEnd(widths[i]) : text.padStart(widths[i]))).join('  ')
  console.log(`\n${title}\n  ${line(head)}\n${rows.map((row) => `  ${line(row)}`).join('\n')}`)
}

/** Rates, latencies and CPU of each variant, by the names that all benchmarks over HTTP report them by. */
export function printLoads(title: string, rate: string, rounds: Rounds): void {
  const rows = [...rounds.keys()].map((variant) => {
    const values = (figure: string) => valuesOf(rounds, variant, figure)
    return [
      variant,
      (median(values('perSecond')) / 1000).toFixed(1),
      `±${spreadPercent(values('perSecond')).toFixed(0)}%`,
      median(values('p50')).toFixed(2),
      median(values('p99')).toFixed(2),
      median(values('cpuUs')).toFixed(1),
    ]
  })
  printTable(title, ['', rate, 'spread', 'p50 ms', 'p99 ms', 'CPU us each'], rows)
}

export function printTargets(targets: readonly Target[]): void {
  if (targets.length === 0) return
  const rows = targets.map(({ what, goal, value, met }) =>
    Number.isNaN(value) ? [what, goal, '-', 'not measured'] : [what, goal, value.toFixed(2), met ? 'met' : 'MISSED'],
  )
  printTable('Targets', ['what', 'goal', 'measured', ''], rows)
}
