interface Event {
  readonly atUs: number
  /** What falls due at one instant happens in the order it was asked for. */
  readonly order: number
  call: (() => void) | undefined
}

/** All that is going to happen, on one true time in whole microseconds. */
export class Heap {
  readonly #events: Event[] = []
  #nowUs: number
  #order = 0
  /** Whether what happened last was told to a process, which may have more to do. */
  woken = false

  constructor(startUs: number) {
    this.#nowUs = startUs
  }

  get nowUs(): number {
    return this.#nowUs
  }

  /** Returns how to call it off. */
  after(us: number, call: () => void): () => void {
    const event: Event = { atUs: this.#nowUs + Math.max(0, Math.round(us)), order: ++this.#order, call }
    this.#push(event)
    return () => {
      event.call = undefined
    }
  }

  /** Goes to the next event, if there is one until then, and makes it happen. */
  step(untilUs: number): boolean {
    for (;;) {
      const first = this.#events[0]
      if (first === undefined || first.atUs > untilUs) return false
      this.#pop()
      if (first.call === undefined) continue
      this.#nowUs = first.atUs
      this.woken = false
      first.call()
      return true
    }
  }

  #push(event: Event): void {
    const events = this.#events
    let i = events.push(event) - 1
    while (i > 0) {
      const up = (i - 1) >> 1
      if (!isBefore(event, events[up] as Event)) break
      events[i] = events[up] as Event
      i = up
    }
    events[i] = event
  }

  #pop(): void {
    const events = this.#events
    const last = events.pop() as Event
    if (events.length === 0) return
    let i = 0
    for (;;) {
      let down = 2 * i + 1
      if (down >= events.length) break
      if (down + 1 < events.length && isBefore(events[down + 1] as Event, events[down] as Event)) down++
      if (!isBefore(events[down] as Event, last)) break
      events[i] = events[down] as Event
      i = down
    }
    events[i] = last
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.order < b.order)
}
