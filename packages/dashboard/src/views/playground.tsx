import { useEffect, useMemo, useState } from 'preact/hooks'
import { count, duration, percent } from '../format.ts'
import { Draw } from '../playground/draw.tsx'
import { algorithms, hasBurst, type Lane, type PlaygroundLimit, periodMs, ruleOf, runLane } from '../playground/run.ts'
import {
  type Columns,
  columnsOf,
  isShape,
  MOST_PER_COLUMN,
  readColumns,
  type Shape,
  shapeNames,
  WINDOWS,
  writeColumns,
} from '../playground/traffic.ts'
import { hrefOf, type Route } from '../route.ts'
import { Copy, Failure, Field, Panel, Pill } from '../ui.tsx'

interface Play {
  readonly limit: number
  readonly per: string
  readonly burst: number | undefined
  /** Drawn by hand, or one of those that are offered. */
  readonly traffic: Shape | Columns
}

const MOST = 200

function playOf({ query }: Route): Play {
  const whole = (name: string, otherwise: number | undefined) => {
    const text = query.get(name) ?? ''
    return /^\d{1,3}$/.test(text) ? Math.min(MOST, Number(text)) : otherwise
  }
  const traffic = query.get('traffic') ?? ''
  return {
    limit: whole('limit', 10) ?? 10,
    per: query.get('per') ?? '10s',
    burst: whole('burst', undefined),
    traffic: readColumns(query.get('draw') ?? '') ?? (isShape(traffic) ? traffic : 'boundary'),
  }
}

function addressOf({ limit, per, burst, traffic }: Play): string {
  return hrefOf(['playground'], {
    limit: String(limit),
    per,
    ...(burst !== undefined && { burst: String(burst) }),
    ...(typeof traffic === 'string' ? { traffic } : { draw: writeColumns(traffic) }),
  })
}

export function PlaygroundView({ route }: { readonly route: Route }) {
  const given = route.query.toString()
  const [play, setPlay] = useState(() => playOf(route))
  useEffect(() => setPlay(playOf(route)), [given])
  const change = (part: Partial<Play>) => {
    const next = { ...play, ...part }
    setPlay(next)
    // Nothing that a way back should lead to.
    history.replaceState(null, '', addressOf(next))
  }
  const columns = typeof play.traffic === 'string' ? columnsOf(play.traffic, play.limit) : play.traffic
  const { lanes, perMs, error } = useMemo(() => lanesOf(play, columns), [JSON.stringify(play)])
  const most = Math.min(MOST_PER_COLUMN, Math.max(8, ...columns.map((n) => n + 2)))
  return (
    <>
      <h1>Playground</h1>
      <Panel
        title="Traffic"
        aside={<Copy text={`${location.href.split('#')[0]}${addressOf(play)}`} label="Copy link" />}
      >
        <form class="row fields" onSubmit={(event) => event.preventDefault()}>
          <Field label="Limit">
            {(id) => (
              <input
                id={id}
                type="number"
                min="1"
                max={MOST}
                value={play.limit}
                onInput={(event) => change({ limit: bounded(event.currentTarget.value) ?? play.limit })}
              />
            )}
          </Field>
          <Field label="Per">
            {(id) => (
              <input
                id={id}
                class="short"
                value={play.per}
                spellcheck={false}
                onInput={(event) => change({ per: event.currentTarget.value.trim() })}
              />
            )}
          </Field>
          <Field label="Burst">
            {(id) => (
              <input
                id={id}
                type="number"
                min="1"
                max={MOST}
                placeholder={String(play.limit)}
                value={play.burst ?? ''}
                onInput={(event) => change({ burst: bounded(event.currentTarget.value) })}
              />
            )}
          </Field>
          <Field label="Requests">
            {(id) => (
              <select
                id={id}
                value={typeof play.traffic === 'string' ? play.traffic : ''}
                onChange={({ currentTarget: { value } }) => isShape(value) && change({ traffic: value })}
              >
                {typeof play.traffic !== 'string' && <option value="">Drawn by hand</option>}
                {shapeNames.map(([shape, name]) => (
                  <option key={shape} value={shape}>
                    {name}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <button type="button" onClick={() => change({ traffic: columns.map(() => 0) })}>
            Clear
          </button>
        </form>
        <Failure error={error} />
        <Draw columns={columns} most={most} onDraw={(traffic) => change({ traffic })} />
        <p class="hint">
          Draw with the pointer, or with the arrow keys. {count(columns.reduce((sum, n) => sum + n, 0))} requests of one
          caller in {duration(WINDOWS * perMs)}, which is {WINDOWS} windows. The engine is that of the service.
        </p>
      </Panel>
      <Panel title="What each algorithm makes of it">
        <div class="lanes">
          {lanes.map((lane) => (
            <LaneRow key={lane.algorithm} lane={lane} columns={columns} most={most} play={play} perMs={perMs} />
          ))}
        </div>
      </Panel>
    </>
  )
}

function bounded(text: string): number | undefined {
  return text === '' || Number.isNaN(Number(text)) ? undefined : Math.min(MOST, Math.max(1, Math.round(Number(text))))
}

function lanesOf(
  limit: PlaygroundLimit,
  columns: Columns,
): { lanes: readonly Lane[]; perMs: number; error: Error | undefined } {
  try {
    return { lanes: algorithms.map((each) => runLane(limit, each, columns)), perMs: periodMs(limit), error: undefined }
  } catch (error) {
    return { lanes: [], perMs: 0, error: error as Error }
  }
}

interface LaneProps {
  readonly lane: Lane
  readonly columns: Columns
  readonly most: number
  readonly play: Play
  readonly perMs: number
}

function LaneRow({ lane, columns, most, play, perMs }: LaneProps) {
  const { algorithm, admitted, total, denied, worst, longestWaitMs } = lane
  const label = `${algorithm}: ${total} admitted, ${denied} denied, at most ${worst} in ${duration(perMs)}`
  return (
    <div class="lane">
      <div class="lane-name">
        <b>{algorithm}</b>
        {hasBurst(algorithm) && play.burst !== undefined && <span class="muted"> burst {play.burst}</span>}
        <Copy text={ruleOf(play, algorithm)} label="Copy rule" />
      </div>
      <svg viewBox={`0 0 ${columns.length} ${most}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {Array.from({ length: WINDOWS - 1 }, (_, i) => ((i + 1) * columns.length) / WINDOWS).map((x) => (
          <line key={x} class="grid" x1={x} x2={x} y1="0" y2={most} />
        ))}
        {columns.map((n, i) => {
          const passed = admitted[i] ?? 0
          return (
            <g key={i}>
              <rect class="allowed" x={i + 0.08} width="0.84" y={most - passed} height={passed} />
              <rect class="denied" x={i + 0.08} width="0.84" y={most - n} height={n - passed} />
            </g>
          )
        })}
      </svg>
      <dl class="lane-facts">
        <div>
          <dt>admitted</dt>
          <dd>
            {count(total)} <span class="muted">{percent(total, total + denied)}</span>
          </dd>
        </div>
        <div>
          <dt>most in {duration(perMs)}</dt>
          <dd>
            {count(worst)} {worst > play.limit && <Pill tone="warn">{count(worst - play.limit)} over</Pill>}
          </dd>
        </div>
        <div>
          <dt>longest wait</dt>
          <dd>{denied === 0 ? '–' : duration(longestWaitMs)}</dd>
        </div>
      </dl>
    </div>
  )
}
