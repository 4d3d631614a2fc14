import { useState } from 'preact/hooks'
import { Gauge } from '../chart.tsx'
import { count, duration, limitText, modeText } from '../format.ts'
import { type Action, useAction, useDesk, useLive, useResource } from '../hooks.ts'
import { hrefOf } from '../route.ts'
import type { Exception, KeyState, Usage } from '../types.ts'
import { Copy, Failure, Field, Loaded, Note, Panel, Pill, Sure } from '../ui.tsx'

interface Target {
  readonly limit: string
  readonly parts: readonly string[]
}

export function KeyView({ limit, parts }: Target) {
  const { api, scope } = useDesk()
  const live = useLive()
  const state = useResource(async (signal) => api.key(limit, parts, signal), [api, live.changes], 2_000)
  const cli = ['headgate', 'inspect', limit, ...parts.map((part) => `'${part.replaceAll("'", `'\\''`)}'`)].join(' ')
  return (
    <>
      <h1>
        <span class="key">{parts.length === 0 ? 'everybody' : parts.join(' · ')}</span>
      </h1>
      <p class="crumbs">
        <a href="#/keys">Keys</a> of <a href={hrefOf(['limits', limit])}>{limit}</a>{' '}
        <Copy text={cli} label="Copy as command" />
      </p>
      <Loaded of={state}>
        {(data) => (
          <>
            <Panel
              title="State"
              aside={
                <Pill tone={data.mode === 'enforce' ? 'plain' : 'warn'}>
                  {modeText(data.mode, data.enforcePercent)}
                </Pill>
              }
            >
              <Standing data={data} />
            </Panel>
            {scope === 'write' && <Acts limit={limit} parts={parts} data={data} onDone={state.reload} />}
          </>
        )}
      </Loaded>
    </>
  )
}

function Standing({ data }: { readonly data: KeyState }) {
  const { override, block, tiers } = data
  return (
    <>
      {block !== null && <Holds what="Blocked" each={block} tone="bad" />}
      {override !== null && <Holds what={`Override to ${limitText(override.to)}`} each={override} tone="warn" />}
      {tiers === undefined ? (
        <UsageOf usage={data as Usage} name="" isBlocked={block !== null} />
      ) : (
        Object.entries(tiers).map(([tier, usage]) => (
          <UsageOf key={tier} usage={usage} name={tier} isBlocked={block !== null} />
        ))
      )}
      {tiers !== undefined && <p class="hint">Only a request says which tier the key is of, so all are shown.</p>}
    </>
  )
}

function Holds({
  what,
  each,
  tone,
}: {
  readonly what: string
  readonly each: Exception
  readonly tone: 'warn' | 'bad'
}) {
  const live = useLive()
  return (
    <Note tone={tone} isNews={false}>
      <b>{what}</b> for {duration(Math.max(0, each.untilMs - live.nowMs))} by {each.by}
      {each.reason === '' ? '' : `: ${each.reason}`}
    </Note>
  )
}

interface UsageProps {
  readonly usage: Usage
  readonly name: string
  readonly isBlocked: boolean
}

function UsageOf({ usage, name, isBlocked }: UsageProps) {
  const { ok, limit, used, remaining, retryAfterMs, resetAfterMs, degraded } = usage
  if (limit === null || limit === undefined)
    return (
      <p>
        {name} <b>unlimited</b>
      </p>
    )
  return (
    <div class="usage">
      <div class="row">
        {name !== '' && <Pill>{name}</Pill>}
        <b class="big">{count(remaining ?? 0)}</b> <span class="muted">left of {count(limit)}</span>
        <Pill tone={ok ? 'good' : 'bad'}>
          {ok
            ? 'the next request passes'
            : isBlocked
              ? 'the next request is refused'
              : 'the next request is over the limit'}
        </Pill>
        {degraded !== false && <Pill tone="warn">without the store: {degraded}</Pill>}
      </div>
      <Gauge used={used} most={limit} label={`${count(used)} of ${count(limit)} used`} />
      <p class="hint">
        {used > 0 && `${count(used)} used. `}
        {!ok &&
          (retryAfterMs === null ? 'Waiting will not help. ' : `The next one fits in ${duration(retryAfterMs)}. `)}
        {resetAfterMs > 0 ? `All is back in ${duration(resetAfterMs)}.` : 'Nothing is used.'}
      </p>
    </div>
  )
}

const TIMES: readonly (readonly [ms: number, text: string])[] = [
  [300_000, '5 minutes'],
  [3_600_000, '1 hour'],
  [86_400_000, '1 day'],
  [604_800_000, '1 week'],
  [2_592_000_000, '30 days'],
]

function Acts({ limit, parts, data, onDone }: Target & { readonly data: KeyState; readonly onDone: () => void }) {
  const { api } = useDesk()
  const action = useAction()
  const act = async (what: () => Promise<unknown>) => {
    const isDone = await action.run(what)
    if (isDone) onDone()
    return isDone
  }
  const target = { limit, ...(parts.length > 0 && { key: parts.length === 1 ? parts[0] : parts }) }
  const { block, override } = data
  return (
    <>
      <Failure error={action.error} />
      <div class="columns">
        <Panel title="Another limit for a time">
          <ExceptionForm
            button="Override"
            withLimit
            action={action}
            onSend={(fields) => act(() => api.override({ ...target, ...fields }))}
          />
          {override !== null && (
            <LiftRow what="override" onLift={() => void act(() => api.lift('overrides', override.id))} />
          )}
        </Panel>
        <Panel title="Block">
          <ExceptionForm
            button="Block"
            action={action}
            onSend={(fields) => act(() => api.block({ ...target, ...fields }))}
          />
          {block !== null && <LiftRow what="block" onLift={() => void act(() => api.lift('blocks', block.id))} />}
        </Panel>
        <Panel title="Reset">
          <p>Forgets what the key has used, and its block.</p>
          <Sure
            button="Reset"
            title="Forget what this key has used?"
            onSure={() => void act(() => api.reset(limit, parts))}
          >
            <p>
              <span class="key">{parts.join(' · ') || 'everybody'}</span> of <b>{limit}</b> starts anew.
            </p>
          </Sure>
        </Panel>
      </div>
    </>
  )
}

function LiftRow({ what, onLift }: { readonly what: string; readonly onLift: () => void }) {
  return (
    <div class="row">
      <button type="button" onClick={onLift}>
        Lift the {what}
      </button>
    </div>
  )
}

interface Fields {
  readonly to?: string | { readonly atOnce: number }
  readonly forMs: number
  readonly reason: string
}

function ExceptionForm({
  button,
  withLimit = false,
  action,
  onSend,
}: {
  readonly button: string
  readonly withLimit?: boolean
  readonly action: Action
  readonly onSend: (fields: Fields) => Promise<boolean>
}) {
  const [to, setTo] = useState('')
  const [forMs, setForMs] = useState(3_600_000)
  const [reason, setReason] = useState('')
  const submit = async (event: Event) => {
    event.preventDefault()
    const [, slots] = /^(\d+) at once$/.exec(to.trim()) ?? []
    const wanted = slots === undefined ? to.trim() : { atOnce: Number(slots) }
    const isDone = await onSend({ ...(withLimit && { to: wanted }), forMs, reason: reason.trim() })
    if (!isDone) return
    setTo('')
    setReason('')
  }
  return (
    <form onSubmit={submit}>
      {withLimit && (
        <Field label="Limit" hint="1000/min, 100/s burst 200, unlimited; 20 at once">
          {(id) => (
            <input
              id={id}
              value={to}
              placeholder="1000/min"
              spellcheck={false}
              onInput={(event) => setTo(event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <Field label="For">
        {(id) => (
          <select id={id} value={forMs} onChange={(event) => setForMs(Number(event.currentTarget.value))}>
            {TIMES.map(([ms, text]) => (
              <option key={ms} value={ms}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Reason">
        {(id) => (
          <input id={id} value={reason} maxLength={500} onInput={(event) => setReason(event.currentTarget.value)} />
        )}
      </Field>
      <button type="submit" class="strong" disabled={action.isBusy || (withLimit && to.trim() === '')}>
        {button}
      </button>
    </form>
  )
}
