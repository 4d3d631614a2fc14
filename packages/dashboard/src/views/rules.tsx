import { useEffect, useState } from 'preact/hooks'
import { type Api, ApiError, type Rules } from '../api.ts'
import { useAction, useDesk, useLive } from '../hooks.ts'
import { diffLines, excerpt } from '../rules/diff.ts'
import { type Draft, draft, isEdited } from '../rules/draft.ts'
import { type Caret, Editor } from '../rules/editor.tsx'
import { Changes, Diff, Problems } from '../rules/preview.tsx'
import type { GoodRules, RulesProblem } from '../types.ts'
import { Failure, Note, Panel, Pill, Sure } from '../ui.tsx'

/** Stands where a secret was. */
const MASKED = '(masked)'

export function RulesView() {
  const { api, scope } = useDesk()
  const live = useLive()
  const [state, setState] = useState<Draft | undefined>(scope === 'write' ? draft.kept : undefined)
  const loading = useAction()
  const set = (next: Draft | undefined) => {
    draft.keep(scope === 'write' ? next : undefined)
    setState(next)
  }
  const load = (reveal = false) =>
    loading.run(async () => {
      const base = await api.rules(reveal)
      set({ base, text: base.text })
    })
  const isOld = state !== undefined && live.generation !== undefined && state.base.tag !== `"${live.generation}"`
  // What nobody has touched follows the rules that hold.
  useEffect(() => {
    if (state === undefined || (isOld && !isEdited(state))) void load()
  }, [isOld])
  return (
    <>
      <h1>Rules</h1>
      <Failure error={loading.error} />
      {state === undefined ? (
        loading.error === undefined && <p class="empty">Loading …</p>
      ) : scope === 'read' ? (
        <Panel title="The rules that hold" aside={<Pill>generation {state.base.tag.replaceAll('"', '')}</Pill>}>
          <Editor text={state.text} problems={[]} caret={undefined} isReadOnly onText={() => {}} />
        </Panel>
      ) : (
        <Writing state={state} set={set} isOld={isOld} load={load} />
      )}
    </>
  )
}

interface WritingProps {
  readonly state: Draft
  readonly set: (next: Draft) => void
  /** Others hold than those that this is written on top of. */
  readonly isOld: boolean
  readonly load: (reveal?: boolean) => Promise<boolean>
}

function Writing({ state, set, isOld, load }: WritingProps) {
  const { api } = useDesk()
  const { base, text } = state
  const [caret, setCaret] = useState<Caret | undefined>()
  const [saved, setSaved] = useState<string | undefined>()
  const action = useAction()
  const { check, problems, error } = useCheck(api, state)
  const isMasked = text.includes(MASKED)
  const edited = isEdited(state)
  const isConflict = isOld || (action.error instanceof ApiError && action.error.code === 'generation_conflict')
  const save = () =>
    action.run(async () => {
      const { tag, needsRestart } = await api.putRules(text, base.tag)
      set({ base: { text, tag }, text })
      const restart = needsRestart.length > 0 ? ` ${needsRestart.join(' and ')} will follow at the next start.` : ''
      setSaved(`Generation ${tag.replaceAll('"', '')} holds.${restart}`)
    })
  return (
    <>
      {isMasked && (
        <Note tone="warn">
          Secrets are masked here, so these rules cannot be saved.{' '}
          <button type="button" onClick={() => void load(true)}>
            Load with secrets
          </button>{' '}
          <span class="muted">This is noted in the audit.</span>
        </Note>
      )}
      {isConflict && edited && <Conflict state={state} set={set} onTheirs={() => void load()} />}
      {!isConflict && <Failure error={action.error} />}
      {!edited && saved !== undefined && <Note tone="good">{saved}</Note>}
      <div class="split">
        <Panel
          title="Text"
          aside={
            <span class="row">
              <Pill>generation {base.tag.replaceAll('"', '')}</Pill>
              {edited && <Pill tone="warn">not saved</Pill>}
            </span>
          }
        >
          <Editor
            text={text}
            problems={[...problems, ...(check?.warnings ?? [])]}
            caret={caret}
            isReadOnly={false}
            onText={(next) => set({ base, text: next })}
          />
          <div class="row">
            <button
              type="button"
              class="strong"
              disabled={
                !edited || isMasked || isConflict || problems.length > 0 || check === undefined || action.isBusy
              }
              onClick={() => void save()}
            >
              Save
            </button>
            <button type="button" disabled={!edited} onClick={() => set({ base, text: base.text })}>
              Undo all
            </button>
            <Sure
              button="Back to the file"
              title="Read the rules file again?"
              tone=""
              onSure={() => void action.run(() => api.reload())}
            >
              <p>Rules that were saved here hold in its place until then.</p>
            </Sure>
          </div>
        </Panel>
        <Panel title="Before you save">
          <Failure error={error} />
          {problems.length > 0 && (
            <Note tone="bad">
              {problems.length === 1 ? 'One problem' : `${problems.length} problems`}: the rules that hold stay.
            </Note>
          )}
          <Problems problems={problems} onGo={setCaret} />
          <Problems problems={check?.warnings ?? []} onGo={setCaret} />
          {!edited ? (
            <p class="empty">Change something to see what it would do.</p>
          ) : check !== undefined ? (
            <Changes check={check} before={base.text} after={text} />
          ) : (
            problems.length === 0 && error === undefined && <p class="empty">Checking …</p>
          )}
        </Panel>
      </div>
    </>
  )
}

interface Checked {
  readonly check: GoodRules | undefined
  readonly problems: readonly RulesProblem[]
  readonly error: Error | undefined
}

const PAUSE_MS = 350
const UNKNOWN: Checked = { check: undefined, problems: [], error: undefined }

/** What the service says of the text, once nobody has typed for a moment. */
function useCheck(api: Api, { text, base }: Draft): Checked {
  const [checked, setChecked] = useState<Checked & { readonly of?: string }>(UNKNOWN)
  const of = `${base.tag} ${text}`
  useEffect(() => {
    const left = new AbortController()
    const ask = async () => {
      const result = await checkOf(api, text, left.signal)
      if (!left.signal.aborted) setChecked({ ...result, of })
    }
    const timer = setTimeout(() => void ask(), PAUSE_MS)
    return () => {
      clearTimeout(timer)
      left.abort()
    }
  }, [api, of])
  // What was said of another text must not let this one be saved; its problems may stay until there is news.
  return checked.of === of ? checked : { ...checked, check: undefined }
}

async function checkOf(api: Api, text: string, signal: AbortSignal): Promise<Checked> {
  try {
    const check = await api.checkRules(text, signal)
    return check.ok ? { ...UNKNOWN, check } : { ...UNKNOWN, problems: check.problems }
  } catch (error) {
    return { ...UNKNOWN, error: error as Error }
  }
}

/** Others came first: shows what they changed, and leaves the choice. */
function Conflict({
  state,
  set,
  onTheirs,
}: {
  readonly state: Draft
  readonly set: (next: Draft) => void
  readonly onTheirs: () => void
}) {
  const { api } = useDesk()
  const [theirs, setTheirs] = useState<Rules | undefined>()
  const action = useAction()
  const isRevealed = !state.base.text.includes(MASKED)
  useEffect(() => void action.run(async () => setTheirs(await fresh(api, isRevealed))), [state.base.tag])
  return (
    <section class="panel conflict" role="alert">
      <h2>Somebody else has changed the rules</h2>
      <Failure error={action.error} />
      {theirs !== undefined && (
        <>
          <p>Generation {theirs.tag.replaceAll('"', '')} holds now. Since the one that you have changed:</p>
          <Diff lines={excerpt(diffLines(state.base.text, theirs.text))} />
          <div class="row">
            <button type="button" onClick={() => set({ base: theirs, text: state.text })}>
              Go on with mine
            </button>
            <button type="button" onClick={onTheirs}>
              Take theirs
            </button>
            <span class="muted">Yours replaces theirs when you save it; the preview shows what that changes.</span>
          </div>
        </>
      )}
    </section>
  )
}

/** With secrets only where they cannot be compared otherwise. */
async function fresh(api: Api, isRevealed: boolean): Promise<Rules> {
  const rules = await api.rules(false)
  return isRevealed && rules.text.includes(MASKED) ? api.rules(true) : rules
}
