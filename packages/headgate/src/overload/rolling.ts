const SLICES = 10

/**
 * Counts of the time just past, in columns. The window rolls on by a tenth of itself: what is counted has come within it, and what came
 * within nine tenths of it is counted. Takes the same memory however much is counted.
 */
export class Rolling {
  readonly #columns: number
  readonly #sliceUs: number
  readonly #counts: Float64Array
  readonly #sums: Float64Array
  #slice = 0

  constructor(windowMs: number, columns: number) {
    this.#columns = columns
    this.#sliceUs = (windowMs * 1000) / SLICES
    this.#counts = new Float64Array(SLICES * columns)
    this.#sums = new Float64Array(columns)
  }

  add(nowUs: number, column: number): void {
    this.#roll(nowUs)
    const at = (this.#slice % SLICES) * this.#columns + column
    this.#counts[at] = (this.#counts[at] as number) + 1
    this.#sums[column] = (this.#sums[column] as number) + 1
  }

  sum(nowUs: number, column: number): number {
    this.#roll(nowUs)
    return this.#sums[column] as number
  }

  clear(): void {
    this.#counts.fill(0)
    this.#sums.fill(0)
  }

  /** A clock that steps back goes on counting where it was. */
  #roll(nowUs: number): void {
    const slice = Math.floor(nowUs / this.#sliceUs)
    const over = Math.min(slice - this.#slice, SLICES)
    if (over <= 0) return
    for (let i = 1; i <= over; i++) this.#drop((this.#slice + i) % SLICES)
    this.#slice = slice
  }

  #drop(slot: number): void {
    for (let column = 0; column < this.#columns; column++) {
      const at = slot * this.#columns + column
      this.#sums[column] = (this.#sums[column] as number) - (this.#counts[at] as number)
      this.#counts[at] = 0
    }
  }
}
