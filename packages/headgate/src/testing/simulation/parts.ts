/** Follows among how many each process divides limits: together they may believe in fewer than there are. */
export class Parts {
  /** By process: the largest part that it had. */
  readonly #largest = new Map<number, number>()
  #sum = 0
  #lastUs: number
  /** How long all parts were together more than the limit, times by how much. */
  beyondUs = 0

  constructor(nowUs: number) {
    this.#lastUs = nowUs
  }

  note(nowUs: number, processes: Iterable<{ readonly process: number; readonly nodes: number }>): void {
    this.beyondUs += Math.max(0, this.#sum - 1) * (nowUs - this.#lastUs)
    this.#lastUs = nowUs
    this.#sum = 0
    for (const { process, nodes } of processes) {
      if (nodes === 0) continue
      this.#sum += 1 / nodes
      this.#largest.set(process, Math.max(this.#largest.get(process) ?? 0, 1 / nodes))
    }
  }

  /** The largest part of each process that ever had one. */
  get largest(): readonly number[] {
    return [...this.#largest.values()]
  }
}
