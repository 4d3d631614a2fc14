import { count, definitionText, modeText } from '../format.ts'
import type { GoodRules, LimitChange, RulesProblem, WouldHave } from '../types.ts'
import { Note, Pill } from '../ui.tsx'
import { type DiffLine, diffLines, excerpt } from './diff.ts'
import type { Caret } from './editor.tsx'

/** Each leads to where it is. */
export function Problems({
  problems,
  onGo,
}: {
  readonly problems: readonly RulesProblem[]
  readonly onGo: (caret: Caret) => void
}) {
  if (problems.length === 0) return null
  return (
    <ul class="problems">
      {problems.map((each) => (
        <li key={`${each.line}:${each.column} ${each.reason}`} class={each.severity}>
          <button type="button" class="link" onClick={() => onGo({ line: each.line, column: each.column })}>
            {each.file}:{each.line}:{each.column}
          </button>{' '}
          {each.path !== '' && <code>{each.path}</code>} {each.reason}; {each.suggestion}{' '}
          <span class="muted">{each.code}</span>
        </li>
      ))}
    </ul>
  )
}

export function Changes({
  check,
  before,
  after,
}: {
  readonly check: GoodRules
  readonly before: string
  readonly after: string
}) {
  const { changes, needsRestart, wouldHave } = check
  return (
    <>
      {needsRestart.length > 0 && (
        <Note tone="warn">{needsRestart.join(' and ')} will change only when the service is started again.</Note>
      )}
      <h3>Limits</h3>
      {changes.length === 0 ? (
        <p class="empty">No limit would change.</p>
      ) : (
        <ul class="changes">
          {changes.map((each) => (
            <li key={each.name}>
              <Change each={each} />
            </li>
          ))}
        </ul>
      )}
      <h3>What they would have done</h3>
      <Would would={wouldHave} />
      <h3>Text</h3>
      <Diff lines={excerpt(diffLines(before, after))} />
    </>
  )
}

function Change({ each }: { readonly each: LimitChange }) {
  const { name, change, before, after } = each
  const tone = { added: 'good', removed: 'bad', changed: 'warn' } as const
  return (
    <>
      <Pill tone={tone[change]}>{change}</Pill> <b>{name}</b>{' '}
      {change === 'changed' && before !== null && after !== null ? (
        <span>{partsOf(before, after)}</span>
      ) : (
        <span class="muted">{definitionText((after ?? before) as NonNullable<typeof after>)}</span>
      )}
    </>
  )
}

type Side = NonNullable<LimitChange['before']>

/** What of a limit is another now, from what to what. */
function partsOf(before: Side, after: Side): string {
  const said: readonly (readonly [string, (of: Side) => string])[] = [
    ['', definitionText],
    ['mode ', ({ mode, enforcePercent }) => modeText(mode, enforcePercent)],
  ]
  const changed = said
    .filter(([, of]) => of(before) !== of(after))
    .map(([name, of]) => `${name}${of(before)} → ${of(after)}`)
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])] as (keyof Side)[]
  const told = ['limit', 'atOnce', 'algorithm', 'mode', 'enforcePercent']
  const others = names.filter(
    (name) => !told.includes(name) && JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  )
  return [...changed, ...(others.length > 0 ? [`also ${others.join(', ')}`] : [])].join('; ')
}

function Would({ would }: { readonly would: WouldHave | null }) {
  if (would === null)
    return (
      <p class="empty">
        Nothing is known of requests yet: they are remembered while somebody looks on here, where one process decides.
      </p>
    )
  const { since, requests, refused, limits, leftOut } = would
  const from = new Date(since).toLocaleTimeString('en-GB')
  return (
    <>
      <p>
        Of {count(requests)} requests since {from}, these rules would have refused <b>{count(refused.after)}</b>, those
        that hold <b>{count(refused.before)}</b>, both counting from there.
      </p>
      {limits.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Limit</th>
                <th scope="col" class="number">
                  Asked
                </th>
                <th scope="col" class="number">
                  Over now
                </th>
                <th scope="col" class="number">
                  Over then
                </th>
              </tr>
            </thead>
            <tbody>
              {limits.map(({ name, before, after }) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td class="number">{count(before.asked)}</td>
                  <td class="number">{over(before)}</td>
                  <td class="number">{over(after)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {leftOut.map(({ name, reason }) => (
        <p key={name} class="hint">
          <b>{name}</b> is left out: {reason}.
        </p>
      ))}
    </>
  )
}

function over({ denied, observed }: WouldHave['limits'][number]['before']): string {
  return observed === 0 ? count(denied) : `${count(denied)} (${count(observed)} observed)`
}

export function Diff({ lines }: { readonly lines: readonly (DiffLine | undefined)[] }) {
  if (lines.length === 0) return <p class="empty">The text is the same.</p>
  const signs = { same: ' ', added: '+', removed: '−' } as const
  return (
    <pre class="diff">
      {lines.map((each, i) =>
        each === undefined ? (
          <span key={i} class="skip-lines">
            {'  ⋯\n'}
          </span>
        ) : (
          <span key={i} class={each.kind}>
            {`${signs[each.kind]} ${each.text}\n`}
          </span>
        ),
      )}
    </pre>
  )
}
