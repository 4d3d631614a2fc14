import { useState } from 'preact/hooks'
import { type Columns, MOST_PER_COLUMN } from './traffic.ts'

/** Traffic to draw: with a pointer, or column by column with the arrow keys. */
export function Draw({
  columns,
  most,
  onDraw,
}: {
  readonly columns: Columns
  readonly most: number
  readonly onDraw: (columns: number[]) => void
}) {
  const [at, setAt] = useState(0)
  const set = (i: number, value: number) =>
    onDraw(columns.map((old, j) => (j === i ? Math.min(MOST_PER_COLUMN, Math.max(0, value)) : old)))
  const draw = (event: PointerEvent) => {
    if (event.buttons === 0) return
    const { left, top, width, height } = (event.currentTarget as Element).getBoundingClientRect()
    const i = Math.floor(((event.clientX - left) / width) * columns.length)
    if (i < 0 || i >= columns.length) return
    setAt(i)
    set(i, Math.round((1 - (event.clientY - top) / height) * most))
  }
  const steps: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => setAt(Math.max(0, at - 1)),
    ArrowRight: () => setAt(Math.min(columns.length - 1, at + 1)),
    ArrowUp: () => set(at, (columns[at] ?? 0) + 1),
    ArrowDown: () => set(at, (columns[at] ?? 0) - 1),
    Delete: () => set(at, 0),
  }
  const press = (event: KeyboardEvent) => {
    const step = steps[event.key]
    if (step === undefined) return
    event.preventDefault()
    step()
  }
  return (
    <div
      class="draw"
      role="slider"
      tabIndex={0}
      aria-label="Traffic: left and right choose a moment, up and down how many requests come then"
      aria-valuemin={0}
      aria-valuemax={MOST_PER_COLUMN}
      aria-valuenow={columns[at] ?? 0}
      aria-valuetext={`moment ${at + 1} of ${columns.length}: ${columns[at]} requests`}
      onKeyDown={press}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId)
        draw(event)
      }}
      onPointerMove={draw}
    >
      <svg viewBox={`0 0 ${columns.length} ${most}`} preserveAspectRatio="none" aria-hidden="true">
        <rect class="chosen" x={at} y="0" width="1" height={most} />
        {columns.map((n, i) => (
          <rect key={i} class="asked" x={i + 0.08} width="0.84" y={most - n} height={n} />
        ))}
      </svg>
    </div>
  )
}
