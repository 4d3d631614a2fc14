import { useEffect, useState } from 'preact/hooks'
import { count, keyText, percent } from '../format.ts'
import { useDesk, useLive, useResource } from '../hooks.ts'
import { hrefOf, type Route } from '../route.ts'
import type { LimitRow, ShownKey, TopKey } from '../types.ts'
import { Field, Loaded, Panel } from '../ui.tsx'
import { Exceptions } from './exceptions.tsx'

export function KeysView({ route }: { readonly route: Route }) {
  const live = useLive()
  const { api } = useDesk()
  const limits = useResource((signal) => api.limits(signal), [api, live.changes])
  const asked = route.query.get('limit') ?? ''
  return (
    <>
      <h1>Keys</h1>
      <Loaded of={limits}>
        {({ limits: rows }) =>
          rows.length === 0 ? (
            <p class="empty">
              There are no limits, so nobody is counted. <a href="#/rules">Rules</a>
            </p>
          ) : (
            <>
              <Panel title="Look up a key">
                <KeyForm rows={rows} />
              </Panel>
              <TopKeys rows={rows} limit={rows.some(({ name }) => name === asked) ? asked : undefined} />
              <Exceptions />
            </>
          )
        }
      </Loaded>
    </>
  )
}

/** `limit`: of this one only. */
export function KeyForm({ rows, limit }: { readonly rows: readonly LimitRow[]; readonly limit?: string }) {
  const [name, setName] = useState(
    limit ?? rows.find(({ definition }) => definition.by.length > 0)?.name ?? rows[0]?.name ?? '',
  )
  const by = rows.find((row) => row.name === name)?.definition.by ?? []
  const [parts, setParts] = useState<readonly string[]>([])
  // What was typed for another limit says nothing of this one.
  useEffect(() => setParts([]), [name])
  const isReady = by.every((_, i) => (parts[i] ?? '') !== '')
  const submit = (event: Event) => {
    event.preventDefault()
    if (isReady) location.hash = hrefOf(['keys', name, ...by.map((_, i) => parts[i] ?? '')])
  }
  return (
    <form class="row fields" onSubmit={submit}>
      {limit === undefined && (
        <Field label="Limit">
          {(id) => (
            <select id={id} value={name} onChange={(event) => setName(event.currentTarget.value)}>
              {rows.map((row) => (
                <option key={row.name}>{row.name}</option>
              ))}
            </select>
          )}
        </Field>
      )}
      {by.map((part, i) => (
        <Field key={`${name} ${part}`} label={part}>
          {(id) => (
            <input
              id={id}
              spellcheck={false}
              autocomplete="off"
              value={parts[i] ?? ''}
              onInput={(event) => setParts(by.map((_, j) => (j === i ? event.currentTarget.value : (parts[j] ?? ''))))}
            />
          )}
        </Field>
      ))}
      <button type="submit" class="strong" disabled={!isReady}>
        {by.length === 0 ? 'Look at the one counter' : 'Look up'}
      </button>
    </form>
  )
}

const SHOWN = 15
const EVERY_MS = 3_000

interface Busy extends TopKey {
  readonly name: string
}

/** The keys that ask most. Masked, unless somebody who may asks for them as they are: that is noted each time, so it is not done again and again. */
export function TopKeys({ rows, limit }: { readonly rows: readonly LimitRow[]; readonly limit: string | undefined }) {
  const { api, scope } = useDesk()
  const [isRevealed, setRevealed] = useState(false)
  const every = isRevealed ? undefined : EVERY_MS
  const top = useResource((signal) => api.top(limit, SHOWN, isRevealed, signal), [api, limit, isRevealed], every)
  const filter = rows.length > 1 && (
    <select
      aria-label="Limit of these keys"
      value={limit ?? ''}
      onChange={({ currentTarget: { value } }) =>
        (location.hash = hrefOf(['keys'], value === '' ? {} : { limit: value }))
      }
    >
      <option value="">all limits</option>
      {rows.map(({ name }) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  )
  const aside = (
    <div class="row">
      {filter}
      {isRevealed && (
        <button type="button" onClick={top.reload}>
          Refresh
        </button>
      )}
      {scope === 'write' && (
        <button type="button" onClick={() => setRevealed(!isRevealed)} title="Noted in the audit">
          {isRevealed ? 'Mask keys' : 'Show keys'}
        </button>
      )}
    </div>
  )
  return (
    <Panel title="Keys that ask most" aside={aside}>
      <Loaded of={top}>
        {({ limits, halfLifeMs }) => {
          const all: Busy[] = limits.flatMap(({ name, keys }) => keys.map((each) => ({ name, ...each })))
          const busiest = all.sort((a, b) => b.count - a.count).slice(0, SHOWN)
          return busiest.length === 0 ? (
            <p class="empty">Nobody has asked yet.</p>
          ) : (
            <>
              <BusyTable busiest={busiest} isRevealed={isRevealed} isOne={rows.length === 1} />
              <p class="hint">What is old counts less, by half in {halfLifeMs / 60_000} minutes.</p>
            </>
          )
        }}
      </Loaded>
    </Panel>
  )
}

interface BusyProps {
  readonly busiest: readonly Busy[]
  readonly isRevealed: boolean
  /** All of one limit. */
  readonly isOne: boolean
}

function BusyTable({ busiest, isRevealed, isOne }: BusyProps) {
  const most = Math.max(1, ...busiest.map((each) => each.count))
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            {!isOne && <th scope="col">Limit</th>}
            <th scope="col" class="wide">
              Share
            </th>
            <th scope="col" class="number">
              Asked
            </th>
            <th scope="col" class="number">
              Over
            </th>
          </tr>
        </thead>
        <tbody>
          {busiest.map(({ name, key, count: asked, denied }) => (
            <tr key={`${name} ${keyText(key)}`}>
              <td>
                <KeyLink limit={name} shown={key} isRevealed={isRevealed} />
              </td>
              {!isOne && (
                <td>
                  <a href={hrefOf(['limits', name])}>{name}</a>
                </td>
              )}
              <td class="sparks wide">
                <Share asked={asked} denied={denied} most={most} />
              </td>
              <td class="number">{count(asked)}</td>
              <td class={`number ${denied > 0 ? 'denied' : ''}`}>{percent(denied, asked)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Share({ asked, denied, most }: { readonly asked: number; readonly denied: number; readonly most: number }) {
  const [passed, over] = [asked - denied, denied].map((part) => `${(100 * part) / most}%`)
  return (
    <div class="share" aria-hidden="true">
      <i class="allowed" style={{ width: passed }} />
      <i class="denied" style={{ width: over }} />
    </div>
  )
}

/** A masked key cannot be looked up. */
export function KeyLink({
  limit,
  shown,
  isRevealed,
}: {
  readonly limit: string
  readonly shown: ShownKey
  readonly isRevealed: boolean
}) {
  const text = keyText(shown)
  if (shown !== undefined && !isRevealed) return <span class="key">{text}</span>
  return (
    <a class="key" href={hrefOf(['keys', limit, ...(shown === undefined ? [] : [shown].flat())])}>
      {text}
    </a>
  )
}
