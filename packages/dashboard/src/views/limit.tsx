import { useState } from 'preact/hooks'
import { Traffic } from '../chart.tsx'
import { byText, definitionText, modeText, whenText } from '../format.ts'
import { useAction, useDesk, useLive, useResource } from '../hooks.ts'
import type { Route } from '../route.ts'
import type { LimitRow, Mode } from '../types.ts'
import { Choice, Failure, Field, Loaded, Note, Panel } from '../ui.tsx'
import { Exceptions } from './exceptions.tsx'
import { KeyForm, TopKeys } from './keys.tsx'
import { ModePill, Spans, spanOf } from './traffic.tsx'

export function LimitView({ name, route }: { readonly name: string; readonly route: Route }) {
  const live = useLive()
  const { api } = useDesk()
  const limits = useResource((signal) => api.limits(signal), [api, live.changes])
  return (
    <>
      <h1>{name}</h1>
      <Loaded of={limits}>
        {({ limits: rows }) => {
          const row = rows.find((each) => each.name === name)
          return row === undefined ? <Gone name={name} /> : <Limit row={row} rows={rows} route={route} />
        }}
      </Loaded>
    </>
  )
}

function Gone({ name }: { readonly name: string }) {
  return (
    <p class="empty">
      The rules that hold have no limit <code>{name}</code>. <a href="#/">All limits</a>
    </p>
  )
}

function Limit({
  row,
  rows,
  route,
}: {
  readonly row: LimitRow
  readonly rows: readonly LimitRow[]
  readonly route: Route
}) {
  const live = useLive()
  const { name, definition } = row
  const data = live.series.bins(name, live.nowMs, spanOf(route), 180)
  return (
    <>
      <Panel title="Decisions" aside={<Spans route={route} path={['limits', name]} />}>
        <Traffic data={data} label={`Decisions per second of ${name}`} />
      </Panel>
      <div class="columns">
        <Panel title="What it says">
          <dl class="facts">
            <Fact name="limit" value={definitionText(definition)} />
            <Fact name="counts" value={byText(definition)} />
            <Fact name="of" value={whenText(definition)} />
            {definition.cost !== undefined && <Fact name="cost" value={String(definition.cost)} />}
            {definition.countWhen && <Fact name="only if status is" value={definition.countWhen.status.join(', ')} />}
            {definition.delayMs !== undefined && <Fact name="holds back up to" value={`${definition.delayMs} ms`} />}
            {definition.onStoreError !== undefined && <Fact name="without the store" value={definition.onStoreError} />}
            {definition.hold !== undefined && <Fact name="held by" value={definition.hold} />}
          </dl>
        </Panel>
        <Panel title="Mode" aside={<ModePill {...row} />}>
          <ModeForm key={`${row.mode} ${row.enforcePercent}`} row={row} />
        </Panel>
      </div>
      <Panel title="Look up a key">
        <KeyForm rows={rows} limit={name} />
      </Panel>
      <TopKeys rows={[row]} limit={name} />
      <Exceptions limit={name} />
    </>
  )
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}

const MODES: readonly (readonly [Mode, string])[] = [
  ['enforce', 'Enforce'],
  ['observe', 'Observe'],
  ['off', 'Off'],
]
const MEANING: Readonly<Record<Mode, string>> = {
  enforce: 'Who is over the limit is refused.',
  observe: 'Everything passes; what would be denied is counted and told.',
  off: 'Nothing is counted.',
}

function ModeForm({ row }: { readonly row: LimitRow }) {
  const { api, scope } = useDesk()
  const { name, inRules } = row
  const [mode, setMode] = useState<Mode>(row.mode)
  const [percent, setPercent] = useState(row.enforcePercent)
  const action = useAction()
  const inRulesText = modeText(inRules.mode, inRules.enforcePercent)
  if (scope === 'read')
    return (
      <p>
        {MEANING[row.effective]} The rules say {inRulesText}.
      </p>
    )
  const isChanged = mode !== row.mode || (mode === 'enforce' && percent !== row.enforcePercent)
  const save = (event: Event) => {
    event.preventDefault()
    void action.run(() => api.setMode(name, mode, mode === 'enforce' ? percent : 100))
  }
  return (
    <form onSubmit={save}>
      <Choice label="Mode" value={mode} options={MODES} onChange={setMode} />
      <p class="hint">{MEANING[mode]}</p>
      {mode === 'enforce' && (
        <Field
          label={`Enforced for ${percent}% of keys`}
          hint="The same keys as the share grows; the others are observed."
        >
          {(id) => (
            <input
              id={id}
              type="range"
              min="0"
              max="100"
              step="1"
              value={percent}
              onInput={(event) => setPercent(Number(event.currentTarget.value))}
            />
          )}
        </Field>
      )}
      {row.effective !== row.mode && <Note tone="warn">The rules only observe as a whole, whatever is said here.</Note>}
      <Failure error={action.error} />
      <div class="row">
        <button type="submit" class="strong" disabled={!isChanged || action.isBusy}>
          Set mode
        </button>
        <span class="muted">The rules say {inRulesText}.</span>
      </div>
    </form>
  )
}
