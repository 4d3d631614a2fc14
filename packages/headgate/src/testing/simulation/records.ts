import type { Answer } from './gateway.ts'

/** What is known of one key. */
export interface KeyRecord {
  /** When, and how many units, one after the other. */
  readonly admitted: number[]
  degradedUnits: number
  /** What each process let through without the store: when, and how many units, one after the other. */
  degraded: Map<string, number[]> | undefined
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
    const record: KeyRecord = this.keys.get(key) ?? { admitted: [], degradedUnits: 0, degraded: undefined }
    this.keys.set(key, record)
    record.admitted.push(atUs, cost)
    if (degraded !== false) this.#degrade(record, answer, atUs)
    if (this.lines.length < MOST_LINES) this.lines.push({ atUs, text: '', answer })
  }

  #degrade(record: KeyRecord, { gateway, life, cost }: Answer, atUs: number): void {
    record.degradedUnits += cost
    const name = `${gateway} ${life}`
    record.degraded ??= new Map()
    const own = record.degraded.get(name) ?? []
    own.push(atUs, cost)
    record.degraded.set(name, own)
  }

  log(atUs: number, text: string): void {
    if (this.lines.length < MOST_LINES) this.lines.push({ atUs, text, answer: undefined })
  }
}
