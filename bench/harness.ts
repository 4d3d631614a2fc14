// What all benchmarks share: a fresh process per measurement, alternating rounds, medians, tables.
// Model: every variant of every round runs in a child process, so that no variant inherits another's heap or compiled code;
// variants alternate (A,B,C, then C,B,A), so that a disturbance hits all of them and a drift cancels out.
import { fork } from 'node:child_process'

export interface Job {
  readonly scenario: string
  readonly variant: string
  readonly round: number
  readonly quick: boolean
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

/** A goal that was set before measuring; the figure is printed beside it either way. */
export interface Target {
  readonly what: string
  readonly goal: string
  readonly value: number
  readonly met: boolean
}

export interface Report {
  readonly figures: Readonly<Record<string, unknown>>
  readonly targets: readonly Target[]
}

/** Every file of this folder that answers a question exports this as `bench`. */
export type Bench = (options: BenchOptions) => Promise<Report>

const CHILD_TIMEOUT_MS = 120_000

/** Runs a job in a fresh process. It inherits our flags, and with them the TypeScript loader. */
export function runChild(worker: URL, job: Job): Promise<Figures> {
  return new Promise((resolve, reject) => {
    const child = fork(worker, [JSON.stringify(job)], {
      execArgv: [...process.execArgv, '--expose-gc'],
      timeout: CHILD_TIMEOUT_MS,
    })
    let figures: Figures | undefined
    child.on('message', (message) => {
      figures = message as Figures
    })
    child.on('error', reject)
    child.on('exit', (code, signal) => {
      if (figures !== undefined && code === 0) resolve(figures)
      else
        reject(new Error(`${job.scenario}, ${job.variant}: the child process ended with ${signal ?? `code ${code}`}`))
    })
  })
}

/** The child's side: does its one job, reports, ends. Exits by itself because some rivals leave timers behind. */
export async function answer(work: (job: Job) => Promise<Figures> | Figures): Promise<void> {
  const figures = await work(JSON.parse(process.argv[2] ?? '{}') as Job)
  process.send?.(figures, () => process.exit(0))
}

export async function alternate(
  worker: URL,
  {
    scenario,
    variants,
    rounds,
    quick,
  }: { scenario: string; variants: readonly string[]; rounds: number; quick: boolean },
): Promise<Rounds> {
  const results = new Map<string, Figures[]>(variants.map((variant) => [variant, []]))
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? variants : variants.toReversed()
    for (const variant of order) {
      progress(`${scenario}: round ${round + 1} of ${rounds}, ${variant}`)
      results.get(variant)?.push(await runChild(worker, { scenario, variant, round, quick }))
    }
  }
  progress('')
  return results
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

export function printTable(title: string, head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((text, column) => Math.max(text.length, ...rows.map((row) => row[column].length)))
  const line = (row: readonly string[]) =>
    row.map((text, i) => (i === 0 ? text.padEnd(widths[i]) : text.padStart(widths[i]))).join('  ')
  console.log(`\n${title}\n  ${line(head)}\n${rows.map((row) => `  ${line(row)}`).join('\n')}`)
}

export function printTargets(targets: readonly Target[]): void {
  if (targets.length === 0) return
  const rows = targets.map(({ what, goal, value, met }) => [what, goal, value.toFixed(2), met ? 'met' : 'MISSED'])
  printTable('Targets', ['what', 'goal', 'measured', ''], rows)
}
