import type { HeaderState, SetHeader } from './format.ts'
import { epoch, seconds, whole } from './numbers.ts'

/** Writes the fields of limits, of which the one at `deciding` decided. */
type Write = (shown: readonly HeaderState[], deciding: number, set: SetHeader) => void

/** What stands in the place of a number until it is known: this, plus which number of which limit. */
const HOLE = 70_000_000_000
const HOLES = /7000000\d{4}/g
const [REMAINING, GROW, RESET, RESET_AT] = [0, 1, 2, 3]
const KINDS = 4

const MOST_LIMITS = 8
const MOST_TEMPLATES = 16

/**
 * Lines of a head about limits. Only some numbers in them differ from response to response, so the text between those is made once,
 * by who knows the fields: to put it together each time takes longer than a decision.
 */
export class Templates {
  readonly #write: Write
  readonly #templates: Template[] = []
  #next = 0
  /** What was told without a template. If the next one is alike, they get one: what comes and goes is not worth it. */
  #missed: Told | undefined

  constructor(write: Write) {
    this.#write = write
  }

  lines(shown: readonly HeaderState[], deciding: number): string {
    const templates = this.#templates
    for (let i = 0; i < templates.length; i++) {
      const template = templates[i] as Template
      if (isTold(template, shown, deciding)) return fill(template, shown)
    }
    if (this.#missed === undefined || !isTold(this.#missed, shown, deciding)) this.#missed = { shown, deciding }
    else this.#make(shown, deciding)
    return this.#text(shown, deciding)
  }

  #make(shown: readonly HeaderState[], deciding: number): void {
    if (shown.length > MOST_LIMITS || shown.some(({ name, limit }) => `${name} ${limit}`.search(HOLES) >= 0)) return
    const text = this.#text(shown.map(holed), deciding)
    const [start = '', ...rest] = text.split(HOLES)
    const holes = [...text.matchAll(HOLES)].map(([hole]) => Number(hole) - HOLE)
    const numbers = holes.map((hole, i) => ({
      of: Math.floor(hole / KINDS),
      kind: hole % KINDS,
      text: rest[i] as string,
    }))
    this.#templates[this.#next] = { shown, deciding, start, numbers }
    this.#next = (this.#next + 1) % MOST_TEMPLATES
  }

  #text(shown: readonly HeaderState[], deciding: number): string {
    let lines = ''
    this.#write(shown, deciding, (name, value) => {
      lines += `${name}: ${value}\r\n`
    })
    return lines
  }
}

interface Told {
  readonly shown: readonly HeaderState[]
  readonly deciding: number
}

interface Template extends Told {
  readonly start: string
  readonly numbers: readonly { readonly of: number; readonly kind: number; readonly text: string }[]
}

/** Whether these limits, in this order, are told by the same words. */
function isTold(told: Told, shown: readonly HeaderState[], deciding: number): boolean {
  if (told.deciding !== deciding || told.shown.length !== shown.length) return false
  for (let i = 0; i < shown.length; i++)
    if (!areAlike(told.shown[i] as HeaderState, shown[i] as HeaderState)) return false
  return true
}

function areAlike(one: HeaderState, other: HeaderState): boolean {
  return (
    one.limit === other.limit &&
    one.windowMs === other.windowMs &&
    one.name === other.name &&
    one.inFlight === other.inFlight &&
    Number.isFinite(one.growAfterMs) === Number.isFinite(other.growAfterMs)
  )
}

function holed(state: HeaderState, i: number): HeaderState {
  const hole = HOLE + i * KINDS
  return {
    ...state,
    remaining: hole + REMAINING,
    growAfterMs: Number.isFinite(state.growAfterMs) ? (hole + GROW) * 1000 : Infinity,
    resetAfterMs: (hole + RESET) * 1000,
    resetAtS: hole + RESET_AT,
  }
}

function fill({ start, numbers }: Template, shown: readonly HeaderState[]): string {
  let text = start
  for (let i = 0; i < numbers.length; i++) {
    const { of, kind, text: after } = numbers[i] as Template['numbers'][number]
    text += numberOf(shown[of] as HeaderState, kind) + after
  }
  return text
}

function numberOf(state: HeaderState, kind: number): string {
  if (kind === REMAINING) return String(whole(state.remaining))
  if (kind === GROW) return String(seconds(state.growAfterMs, 0))
  if (kind === RESET) return String(seconds(state.resetAfterMs, 0))
  return epoch(state.resetAtS)
}
