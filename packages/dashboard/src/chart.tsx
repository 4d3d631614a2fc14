import { useState } from 'preact/hooks'
import { clock, rate } from './format.ts'
import { type Bin, type Bins, type Outcome, outcomes } from './series.ts'

const NAMES: Readonly<Record<Outcome, string>> = {
  allowed: 'allowed',
  degraded: 'allowed without the store',
  observed: 'would be denied',
  denied: 'denied',
}

/** The smallest of 1, 2, 5 times a power of ten that is enough. */
export function niceMost(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1e-9)))
  return ([1, 2, 5, 10].find((n) => n * power >= most) ?? 10) * power
}

function heightOf(bin: Bin): number {
  return bin === null ? 0 : outcomes.reduce((sum, name) => sum + bin[name], 0)
}

/** Steps, bin by bin, of everything up to and including one outcome; what is not known is left out. */
function outline(bins: readonly Bin[], upTo: number, most: number): string {
  const y = (bin: Bin, n: number) =>
    100 - (100 * outcomes.slice(0, n).reduce((s, name) => s + (bin?.[name] ?? 0), 0)) / most
  return bins
    .map((bin, i) => {
      if (bin === null) return ''
      const [top, bottom] = [y(bin, upTo + 1).toFixed(2), y(bin, upTo).toFixed(2)]
      return top === bottom ? '' : `M${i} ${bottom}V${top}H${i + 1.02}V${bottom}Z`
    })
    .join('')
}

/** What limits said, second by second. */
export function Traffic({
  data,
  label,
  height = 160,
}: {
  readonly data: Bins
  readonly label: string
  readonly height?: number
}) {
  const { bins, fromMs, stepMs } = data
  const [at, setAt] = useState<number | undefined>()
  const most = niceMost(Math.max(1, ...bins.map(heightOf)))
  const toMs = fromMs + bins.length * stepMs
  const shown = at === undefined ? bins.at(-1) : bins[at]
  const shownMs = at === undefined ? toMs - stepMs : fromMs + at * stepMs
  const move = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as Element).getBoundingClientRect()
    setAt(Math.min(bins.length - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * bins.length))))
  }
  return (
    <figure class="chart">
      <figcaption>
        <span class="when">{clock(shownMs)}</span>
        {outcomes.map((name) => (
          <span key={name} class={`legend ${name}`}>
            <i aria-hidden="true" />
            {NAMES[name]} <b>{shown ? `${rate(shown[name])}/s` : '?'}</b>
          </span>
        ))}
      </figcaption>
      <div class="plot" onPointerMove={move} onPointerLeave={() => setAt(undefined)} style={{ height: `${height}px` }}>
        <svg viewBox={`0 0 ${bins.length} 100`} preserveAspectRatio="none" role="img" aria-label={label}>
          {[25, 50, 75].map((y) => (
            <line key={y} class="grid" x1="0" x2={bins.length} y1={y} y2={y} />
          ))}
          <path
            class="unknown"
            d={bins.map((bin, i) => (bin === null ? `M${i} 0H${i + 1.02}V100H${i}Z` : '')).join('')}
          />
          {outcomes.map((name, i) => (
            <path key={name} class={name} d={outline(bins, i, most)} />
          ))}
          {at !== undefined && <line class="cursor" x1={at + 0.5} x2={at + 0.5} y1="0" y2="100" />}
        </svg>
        <span class="top">{rate(most)}/s</span>
      </div>
      <div class="axis" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75].map((part) => (
          <span key={part}>{clock(fromMs + part * (toMs - fromMs))}</span>
        ))}
        <span>{clock(toMs)}</span>
      </div>
    </figure>
  )
}

/** The same in a word's room. */
export function Spark({ data }: { readonly data: Bins }) {
  const most = Math.max(1, ...data.bins.map(heightOf))
  return (
    <svg class="spark" viewBox={`0 0 ${data.bins.length} 100`} preserveAspectRatio="none" aria-hidden="true">
      {outcomes.map((name, i) => (
        <path key={name} class={name} d={outline(data.bins, i, most)} />
      ))}
    </svg>
  )
}

/** How much of something is used. */
export function Gauge({ used, most, label }: { readonly used: number; readonly most: number; readonly label: string }) {
  const share = most <= 0 ? 1 : Math.min(1, used / most)
  return (
    <div class={`gauge ${share >= 1 ? 'full' : share > 0.8 ? 'high' : ''}`} role="img" aria-label={label}>
      <i style={{ width: `${100 * share}%` }} />
    </div>
  )
}
