import type { Answer } from './gateway.ts'
import type { Passed } from './hearing.ts'

/** What is known of one key. */
export interface KeyRecord {
  readonly admitted: Passed[]
  /** What was noted to be told to others. */
  readonly told: Passed[]
  degradedUnits: number
  /** What each process let through without the store. */
  degraded: Map<number, Passed[]> | undefined
}

export interface Line {
  readonly atUs: number
  readonly text: string
  readonly answer: Answer | undefined
}

/** So many lines are kept: longer traces are nobody's to read. */
const MOST_LINES = 20_000

/** All that a run is judged by. */
export class Records {
  readonly keys = new Map<string, KeyRecord>()
  readonly lines: Line[] = []
  readonly latenciesUs: number[] = []
  asked = 0
  admitted = 0
  admittedUnits = 0
  local = 0
  degraded = 0

  /** @param atUs When it counts as let through: for what the store decided, when it did. */
  add(answer: Answer, atUs: number, nowUs: number): void {
    const { ok, key, cost, degraded, isLocal, askedUs } = answer
    this.asked++
    if (isLocal) this.local++
    if (degraded !== false) this.degraded++
    this.latenciesUs.push(nowUs - askedUs)
    if (!ok) return
    this.admitted++
    this.admittedUnits += cost
    const record = this.#of(key)
    const passed = { atUs, cost, process: answer.process }
    record.admitted.push(passed)
    if (degraded !== false) this.#degrade(record, passed)
    if (this.lines.length < MOST_LINES) this.lines.push({ atUs, text: '', answer })
  }

  /** Notes what was handed on to be told to others. */
  tell(key: string, passed: Passed): void {
    this.#of(key).told.push(passed)
  }

  #of(key: string): KeyRecord {
    const record: KeyRecord = this.keys.get(key) ?? { admitted: [], told: [], degradedUnits: 0, degraded: undefined }
    this.keys.set(key, record)
    return record
  }

  #degrade(record: KeyRecord, passed: Passed): void {
    record.degradedUnits += passed.cost
    record.degraded ??= new Map()
    const own = record.degraded.get(passed.process) ?? []
    own.push(passed)
    record.degraded.set(passed.process, own)
  }

  log(atUs: number, text: string): void {
    if (this.lines.length < MOST_LINES) this.lines.push({ atUs, text, answer: undefined })
  }
}
