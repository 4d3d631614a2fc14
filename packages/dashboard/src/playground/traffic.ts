/** Requests per column of the plot. */
export type Columns = readonly number[]

export const COLUMNS = 60
/** So many windows are shown. */
export const WINDOWS = 3
/** One character each in an address. */
export const MOST_PER_COLUMN = 35

const PER_WINDOW = COLUMNS / WINDOWS

/** What requests per window are, column by column, as multiples of the limit. */
const shapes = {
  boundary: { name: 'Around a boundary', at: (i: number) => (i >= 18 && i < 22 ? PER_WINDOW / 2 : 0) },
  steady: { name: 'Steady, a fifth too fast', at: () => 1.2 },
  bursts: { name: 'Bursts', at: (i: number) => (i % 15 < 2 ? 12 : 0) },
  ramp: { name: 'More and more', at: (i: number) => (3 * i) / COLUMNS },
  storm: { name: 'Retry storm', at: (i: number) => (i < 10 ? 0.8 : i < 40 ? (i % 6 === 0 ? 18 : 0.6) : 0.8) },
  trickle: { name: 'Trickle, then all at once', at: (i: number) => (i < 40 ? 0.4 : i < 43 ? 14 : 0.4) },
} as const

export type Shape = keyof typeof shapes
export const shapeNames = Object.entries(shapes).map(([shape, { name }]) => [shape as Shape, name] as const)

export function isShape(text: string): text is Shape {
  return Object.hasOwn(shapes, text)
}

/** Whole requests: what is left over of a column goes to the next. */
export function columnsOf(shape: Shape, limit: number): number[] {
  let rest = 0
  return Array.from({ length: COLUMNS }, (_, i) => {
    rest += (shapes[shape].at(i) * limit) / PER_WINDOW
    const whole = Math.min(MOST_PER_COLUMN, Math.floor(rest + 1e-9))
    rest = Math.min(1, rest - whole)
    return whole
  })
}

export function writeColumns(columns: Columns): string {
  return columns.map((n) => n.toString(36)).join('')
}

/** Undefined: this is no drawing. */
export function readColumns(text: string): number[] | undefined {
  if (!new RegExp(`^[0-9a-z]{${COLUMNS}}$`).test(text)) return undefined
  return [...text].map((digit) => Number.parseInt(digit, 36))
}

/** When requests come, in milliseconds from the start: those of a column evenly over it. */
export function arrivalsOf(columns: Columns, perMs: number): number[] {
  const widthMs = (WINDOWS * perMs) / columns.length
  return columns.flatMap((n, i) => Array.from({ length: n }, (_, j) => (i + j / n) * widthMs))
}
