import { useState } from 'preact/hooks'
import { Spark, Traffic } from '../chart.tsx'
import { byText, clock, count, definitionText, duration, keyText, modeText, percent, rate } from '../format.ts'
import { useDesk, useLive, useResource } from '../hooks.ts'
import { describe } from '../live.ts'
import { hrefOf, type Route } from '../route.ts'
import type { LimitRow } from '../types.ts'
import { Field, Loaded, Panel, Pill } from '../ui.tsx'

const SPANS = [
  ['1', '1 min'],
  ['5', '5 min'],
  ['15', '15 min'],
] as const
const BINS = 180

/** In seconds. */
export function spanOf(route: Route): number {
  const asked = route.query.get('span') ?? '5'
  return 60 * Number(SPANS.some(([span]) => span === asked) ? asked : '5')
}

export function Spans({ route, path }: { readonly route: Route; readonly path: readonly string[] }) {
  const now = String(spanOf(route) / 60)
  return (
    <nav class="spans" aria-label="Time span">
      {SPANS.map(([span, text]) => (
        <a key={span} href={hrefOf(path, { span })} aria-current={span === now ? 'true' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  )
}

export function TrafficView({ route }: { readonly route: Route }) {
  const live = useLive()
  const { api } = useDesk()
  const limits = useResource((signal) => api.limits(signal), [api, live.changes])
  const spanS = spanOf(route)
  const { nowMs, series } = live
  const now = series.rate(undefined, nowMs)
  return (
    <>
      <h1>Traffic</h1>
      <dl class="stats">
        <Stat name="allowed" value={`${rate(now.allowed + now.degraded)}/s`} tone="allowed" />
        <Stat name="denied" value={`${rate(now.denied)}/s`} tone={now.denied > 0 ? 'denied' : ''} />
        <Stat name="would be denied" value={`${rate(now.observed)}/s`} tone={now.observed > 0 ? 'observed' : ''} />
        <Stat name="store" value={live.storeState} tone={live.storeState === 'down' ? 'denied' : ''} />
        <Stat name="limits" value={limits.data === undefined ? '…' : count(limits.data.limits.length)} tone="" />
      </dl>
      <Panel title="Decisions of all limits" aside={<Spans route={route} path={[]} />}>
        <Traffic
          data={series.bins(undefined, nowMs, spanS, BINS)}
          label="Decisions per second, of all limits together"
        />
        <p class="hint">A request counts once for each limit that it meets. Of times in grey nothing is known.</p>
      </Panel>
      <Panel title="Limits">
        <Loaded of={limits}>{({ limits: rows }) => <LimitsTable rows={rows} spanS={spanS} />}</Loaded>
      </Panel>
      <div class="columns">
        <Happenings />
        <Denials />
      </div>
    </>
  )
}

function Stat({ name, value, tone }: { readonly name: string; readonly value: string; readonly tone: string }) {
  return (
    <div class={tone}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}

export function ModePill({ mode, enforcePercent, effective }: Pick<LimitRow, 'mode' | 'enforcePercent' | 'effective'>) {
  const text = effective === mode ? modeText(mode, enforcePercent) : `${effective} (all rules)`
  return <Pill tone={effective === 'enforce' ? 'plain' : effective === 'observe' ? 'warn' : 'off'}>{text}</Pill>
}

/** So many are drawn at a time: more would be too much work for a second, and for a reader. */
const MOST_ROWS = 40

function LimitsTable({ rows, spanS }: { readonly rows: readonly LimitRow[]; readonly spanS: number }) {
  const live = useLive()
  const [part, setPart] = useState('')
  if (rows.length === 0)
    return (
      <p class="empty">
        The rules have no limits yet. <a href="#/rules">Write some</a>, such as{' '}
        <code>{'per-ip: { limit: 10/s, by: [ip] }'}</code>.
      </p>
    )
  const found = rows.filter(({ name }) => name.includes(part.trim()))
  return (
    <div class="scroll">
      {rows.length > MOST_ROWS && (
        <div class="row fields">
          <Field
            label={`Of ${count(rows.length)} limits, ${count(Math.min(MOST_ROWS, found.length))} shown; name contains`}
          >
            {(id) => <input id={id} value={part} onInput={(event) => setPart(event.currentTarget.value)} />}
          </Field>
        </div>
      )}
      <table>
        <thead>
          <tr>
            <th scope="col">Limit</th>
            <th scope="col" class="wide">
              Holds
            </th>
            <th scope="col">Mode</th>
            <th scope="col">Decisions</th>
            <th scope="col" class="number">
              Allowed
            </th>
            <th scope="col" class="number">
              Denied
            </th>
            <th scope="col" class="number">
              Would be
            </th>
            <th scope="col" class="number">
              Over
            </th>
          </tr>
        </thead>
        <tbody>
          {found.slice(0, MOST_ROWS).map((row) => (
            <Row key={row.name} row={row} live={live} spanS={spanS} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({
  row,
  live,
  spanS,
}: {
  readonly row: LimitRow
  readonly live: ReturnType<typeof useLive>
  readonly spanS: number
}) {
  const { name, definition } = row
  const data = live.series.bins(name, live.nowMs, spanS, 60)
  const now = live.series.rate(name, live.nowMs)
  const all = live.series.total(name, live.nowMs, spanS)
  const over = all.denied + all.observed
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf(['limits', name])}>{name}</a>
      </th>
      <td class="wide">
        {definitionText(definition)} <span class="muted">by {byText(definition)}</span>
      </td>
      <td>
        <ModePill {...row} />
      </td>
      <td class="sparks">
        <Spark data={data} />
      </td>
      <td class="number">{rate(now.allowed + now.degraded)}/s</td>
      <td class={`number ${now.denied > 0 ? 'denied' : ''}`}>{rate(now.denied)}/s</td>
      <td class={`number ${now.observed > 0 ? 'observed' : ''}`}>{rate(now.observed)}/s</td>
      <td class="number">{percent(over, over + all.allowed + all.degraded)}</td>
    </tr>
  )
}

function Happenings() {
  const { happenings } = useLive()
  return (
    <Panel title="What happened">
      {happenings.length === 0 ? (
        <p class="empty">Nothing was changed of late, and nothing failed.</p>
      ) : (
        <ol class="feed">
          {happenings.slice(0, 12).map((each) => (
            <li key={`${each.atMs} ${describe(each)}`}>
              <time>{clock(each.atMs)}</time> {describe(each)}
            </li>
          ))}
        </ol>
      )}
    </Panel>
  )
}

function Denials() {
  const { denials } = useLive()
  return (
    <Panel title="Denied just now" aside={<span class="muted">a sample</span>}>
      {denials.length === 0 ? (
        <p class="empty">Nobody was denied while this page was open.</p>
      ) : (
        <ol class="feed">
          {denials.map(({ atMs, limit, keys, retryAfterMs, times }) => (
            <li key={JSON.stringify([limit, keys])}>
              <time>{clock(atMs)}</time> <a href={hrefOf(['limits', limit])}>{limit}</a>{' '}
              <span class="key">{keyText(keys[limit])}</span>{' '}
              <span class="muted">
                {retryAfterMs === null ? 'never fits' : `wait ${duration(retryAfterMs)}`}
                {times > 1 && `, ${count(times)} times`}
              </span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  )
}
