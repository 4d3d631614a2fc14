import { useEffect, useRef, useState } from 'preact/hooks'
import { lending, modes, protocols } from '../chaos/modes.ts'
import type { ChaosOptions, ChaosRun } from '../chaos/run.ts'
import { startChaos } from '../chaos/start.ts'
import { niceMost } from '../chart.tsx'
import { count, duration, percent } from '../format.ts'
import { hrefOf, type Route } from '../route.ts'
import { Copy, Failure, Field, Note, Panel, Pill } from '../ui.tsx'

const MANY = 40

function optionsOf({ query }: Route): ChaosOptions {
  const known = <T extends string>(name: string, of: Readonly<Record<T, string>>, otherwise: T): T => {
    const text = query.get(name) ?? ''
    return Object.hasOwn(of, text) ? (text as T) : otherwise
  }
  const seed = query.get('seed') ?? ''
  return {
    seed: /^\d{1,9}$/.test(seed) ? Number(seed) : 36,
    mode: known('mode', modes, 'lease'),
    protocol: known('protocol', protocols, 'right'),
  }
}

function addressOf({ seed, mode, protocol }: ChaosOptions): string {
  return hrefOf(['chaos'], { mode, seed: String(seed), ...(protocol !== 'right' && { protocol }) })
}

export function ChaosView({ route }: { readonly route: Route }) {
  const options = optionsOf(route)
  const { seed, mode, protocol } = options
  const [runs, setRuns] = useState<readonly ChaosRun[]>([])
  const [wanted, setWanted] = useState(0)
  const [error, setError] = useState<Error | undefined>()
  const stop = useRef(() => {})
  const go = (part: Partial<ChaosOptions>) => {
    const next = { ...options, ...part }
    location.hash = addressOf(lending.includes(next.mode) ? next : { ...next, protocol: 'right' })
  }
  const start = (n: number) => {
    stop.current()
    setRuns([])
    setWanted(n)
    setError(undefined)
    stop.current = startChaos(
      { ...options, runs: n },
      { onRun: (run) => setRuns((all) => [...all, run]), onError: setError },
    )
  }
  // An address says which run it is about, so it is run.
  useEffect(() => {
    start(1)
    return () => stop.current()
  }, [seed, mode, protocol])
  const isBusy = runs.length < wanted && error === undefined
  const shown = runs.find((run) => run.violations.length > 0) ?? runs[0]
  return (
    <>
      <h1>Chaos</h1>
      <Panel
        title="A fleet in bad weather"
        aside={<Copy text={`${location.href.split('#')[0]}${addressOf(options)}`} label="Copy link" />}
      >
        <div class="row fields">
          <Field label="Mode">
            {(id) => (
              <select
                id={id}
                value={mode}
                onChange={(event) => go({ mode: event.currentTarget.value as ChaosOptions['mode'] })}
              >
                {Object.keys(modes).map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </Field>
          {lending.includes(mode) && (
            <Field label="Lending">
              {(id) => (
                <select
                  id={id}
                  value={protocol}
                  onChange={(event) => go({ protocol: event.currentTarget.value as ChaosOptions['protocol'] })}
                >
                  {Object.entries(protocols).map(([name, text]) => (
                    <option key={name} value={name}>
                      {text}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          )}
          <Field label="Seed">
            {(id) => (
              <input
                id={id}
                type="number"
                min="0"
                max="999999999"
                value={seed}
                onChange={(event) => go({ seed: Math.max(0, Math.floor(Number(event.currentTarget.value))) })}
              />
            )}
          </Field>
          <button type="button" onClick={() => go({ seed: seed + 1 })}>
            Next seed
          </button>
          <button type="button" onClick={() => start(MANY)}>
            Run {MANY} seeds
          </button>
        </div>
        <p class="hint">
          {modes[mode]} The gates, leases and fallbacks are those of the service; clocks, network and faults are made up
          from the seed, and the same seed always comes to the same end.
        </p>
        <Failure error={error} />
        {isBusy && (
          <p class="empty">
            Simulating … {wanted > 1 && `${runs.length} of ${wanted}`}{' '}
            <progress max={wanted} value={runs.length} aria-label="Simulated" />
          </p>
        )}
      </Panel>
      {wanted > 1 && runs.length > 0 && <Sweep runs={runs} />}
      {shown !== undefined && <Run run={shown} />}
    </>
  )
}

function Verdict({ run }: { readonly run: ChaosRun }) {
  const { worst, bound } = run.report.overAdmission
  if (run.violations.length > 0) return <Pill tone="bad">a bound was broken</Pill>
  return <Pill tone="good">{worst === 0 ? 'never over the limit' : `${worst} over, within ${bound}`}</Pill>
}

function Run({ run }: { readonly run: ChaosRun }) {
  const { report, violations, faults, forMs, limit, seed } = run
  const { decisions, overAdmission, store, latencyMs } = report
  return (
    <>
      <Panel title={`Seed ${seed}`} aside={<Verdict run={run} />}>
        {violations.map((text) => (
          <Note key={text} tone="bad">
            {text}
          </Note>
        ))}
        <Level run={run} />
        <dl class="stats small">
          <Stat
            name="fleet"
            value={`${report.gateways} gateways, ${run.regions} ${run.regions === 1 ? 'region' : 'regions'}`}
          />
          <Stat name="limit of each key" value={`${limit.perSecond}/s burst ${limit.burst}`} />
          <Stat name="asked" value={count(decisions.asked)} />
          <Stat
            name="admitted"
            value={`${count(decisions.admitted)} (${percent(decisions.admitted, decisions.asked)})`}
          />
          <Stat name="over the limit" value={`${overAdmission.worst}, at most ${overAdmission.bound}`} />
          <Stat name="without the store" value={count(decisions.degraded)} />
          <Stat
            name="store calls"
            value={`${count(store.calls)} (${store.callsPerDecision.toFixed(2)} per decision)`}
          />
          <Stat name="p99 wait" value={`${latencyMs.p99} ms`} />
        </dl>
        <p class="hint">
          Bound: {overAdmission.rule}. In {duration(forMs)} of virtual time.
        </p>
      </Panel>
      <Panel title="What went wrong" aside={<span class="muted">{faults.length} faults</span>}>
        {faults.length === 0 ? (
          <p class="empty">Nothing: this seed has good weather.</p>
        ) : (
          <ol class="feed">
            {faults.map(({ atMs, text }) => (
              <li key={`${atMs} ${text}`}>
                <time>{(atMs / 1000).toFixed(3)} s</time> {text}
              </li>
            ))}
          </ol>
        )}
      </Panel>
    </>
  )
}

function Stat({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}

/** What passed of one key, as the water in a bucket: the limit is its rim, and the bound how far above that it may go. */
function Level({ run }: { readonly run: ChaosRun }) {
  const { levels, limit, report, faults, forMs, key } = run
  const bound = limit.burst + report.overAdmission.bound
  const most = niceMost(Math.max(limit.burst * 1.1, bound, run.most))
  const y = (value: number) => 100 - (100 * value) / most
  const x = (ms: number) => (levels.length * ms) / forMs
  const area = `M0 100${levels.map((level, i) => `L${i} ${y(level).toFixed(2)}H${i + 1}`).join('')}V100Z`
  const label = `Units of ${key} in its bucket: at most ${Math.round(run.most)}, the limit is ${limit.burst}, the bound ${bound}`
  return (
    <figure class="chart">
      <figcaption>
        <span class="legend level">
          <i aria-hidden="true" />
          admitted of key {key}, less what has leaked
        </span>
        <span class="legend rim">
          <i aria-hidden="true" />
          limit <b>{limit.burst}</b>
        </span>
        <span class="legend bound">
          <i aria-hidden="true" />
          bound <b>{count(bound)}</b>
        </span>
        <span class="legend fault">
          <i aria-hidden="true" />
          faults
        </span>
      </figcaption>
      <div class="plot level-plot">
        <svg viewBox={`0 0 ${levels.length || 1} 100`} preserveAspectRatio="none" role="img" aria-label={label}>
          <path class="level" d={area} />
          <line class="rim" x1="0" x2={levels.length} y1={y(limit.burst)} y2={y(limit.burst)} />
          <line class="bound" x1="0" x2={levels.length} y1={y(bound)} y2={y(bound)} />
        </svg>
        <span class="top">{count(most)}</span>
      </div>
      <svg class="faults" viewBox={`0 0 ${levels.length || 1} 1`} preserveAspectRatio="none" aria-hidden="true">
        {faults.map(({ atMs, forMs: ms, text }) => (
          <rect
            key={`${atMs} ${text}`}
            class="fault"
            x={x(atMs)}
            width={widthOf(x(atMs), x(ms), levels.length)}
            y="0"
            height="1"
          >
            <title>{text}</title>
          </rect>
        ))}
      </svg>
      <div class="axis" aria-hidden="true">
        <span>0 s</span>
        <span>{(forMs / 2000).toFixed(1)} s</span>
        <span>{(forMs / 1000).toFixed(1)} s</span>
      </div>
    </figure>
  )
}

/** At least so that it can be seen, and not beyond the end. */
function widthOf(x: number, width: number, end: number): number {
  return Math.max(1, Math.min(end - x, width))
}

/** Many seeds: how far over each went, and how far it might have. */
function Sweep({ runs }: { readonly runs: readonly ChaosRun[] }) {
  const over = runs.map(({ report }) => report.overAdmission)
  const most = niceMost(Math.max(1, ...over.map(({ worst, bound }) => Math.max(worst, bound))))
  const broken = runs.filter(({ violations }) => violations.length > 0)
  return (
    <Panel
      title={`${runs.length} seeds`}
      aside={
        <Pill tone={broken.length === 0 ? 'good' : 'bad'}>
          {broken.length === 0 ? 'all bounds held' : `${broken.length} broke a bound`}
        </Pill>
      }
    >
      <div class="sweep">
        {runs.map((run, i) => {
          const { worst = 0, bound = 0 } = over[i] ?? {}
          const label = `Seed ${run.seed}: ${worst} over, at most ${bound}${run.violations.length > 0 ? ', a bound was broken' : ''}`
          return (
            <a
              key={run.seed}
              href={addressOf(run)}
              title={label}
              aria-label={label}
              class={run.violations.length > 0 ? 'broken' : ''}
            >
              <i class="bound" style={{ height: `${(100 * bound) / most}%` }} />
              <i class="worst" style={{ height: `${(100 * worst) / most}%` }} />
            </a>
          )
        })}
      </div>
      <p class="hint">
        Each column is a seed: units over the limit (filled), and how many may be (outline). Up to {count(most)}.
      </p>
    </Panel>
  )
}
