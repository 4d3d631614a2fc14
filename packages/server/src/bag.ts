/** Something that a bag can hold. */
export interface Bagged {
  /** Where in its bag it is. */
  place: number
}

/**
 * What is under way, where things come and go with every request. A `Set` leaves its outgrown tables behind, each with all that was in it
 * and a way to the next table; one of them that has become old keeps all later ones from being collected young, and collecting them takes
 * pauses of 10 ms.
 */
export class Bag<T extends Bagged> {
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: T): void {
    item.place = this.#items.length
    this.#items.push(item)
  }

  /** Nothing happens to what is not in it. */
  delete(item: T): void {
    if (this.#items[item.place] !== item) return
    const last = this.#items.pop() as T
    if (last === item) return
    this.#items[item.place] = last
    last.place = item.place
  }

  /** All that are in it now, whatever comes or goes meanwhile. */
  all(): readonly T[] {
    return [...this.#items]
  }
}
