import { useState } from 'preact/hooks'
import { duration, limitText } from '../format.ts'
import { useAction, useDesk, useLive, useResource } from '../hooks.ts'
import { hrefOf } from '../route.ts'
import type { Exception } from '../types.ts'
import { Failure, Loaded, Panel, Sure } from '../ui.tsx'
import { KeyLink } from './keys.tsx'

type Kind = 'overrides' | 'blocks'

interface Listed extends Exception {
  readonly kind: Kind
}

/** What holds for single keys: of one limit, or of all. */
export function Exceptions({ limit }: { readonly limit?: string }) {
  const { api, scope } = useDesk()
  const live = useLive()
  const [isRevealed, setRevealed] = useState(false)
  const action = useAction()
  const all = useResource(
    async (signal) => {
      const kinds: readonly Kind[] = ['overrides', 'blocks']
      const answers = await Promise.all(kinds.map((kind) => api.exceptions(kind, isRevealed, signal)))
      const shown = answers.flatMap(({ list }, i) => list.map((each): Listed => ({ ...each, kind: kinds[i] as Kind })))
      return { shown, isAll: answers.every(({ total, list }) => total === list.length) }
    },
    [api, live.changes, isRevealed],
  )
  const reveal = scope === 'write' && (all.data?.shown.length ?? 0) > 0 && (
    <button type="button" onClick={() => setRevealed(!isRevealed)} title="Noted in the audit">
      {isRevealed ? 'Mask keys' : 'Show keys'}
    </button>
  )
  return (
    <Panel title="Overrides and blocks" aside={reveal}>
      <Failure error={action.error} />
      <Loaded of={all}>
        {({ shown: list, isAll }) => {
          const shown = list.filter(
            (each) => (limit === undefined || each.limit === limit) && each.untilMs > live.nowMs,
          )
          if (shown.length === 0) return <p class="empty">No key is treated otherwise than the rules say.</p>
          return (
            <div class="scroll">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Key</th>
                    <th scope="col">Limit</th>
                    <th scope="col">What</th>
                    <th scope="col">Ends in</th>
                    <th scope="col">Reason</th>
                    <th scope="col" class="wide">
                      By
                    </th>
                    {scope === 'write' && <th scope="col" aria-label="Action" />}
                  </tr>
                </thead>
                <tbody>
                  {shown.map((each) => (
                    <tr key={each.id}>
                      <td>
                        <KeyLink limit={each.limit} shown={each.key} isRevealed={isRevealed} />
                      </td>
                      <td>
                        <a href={hrefOf(['limits', each.limit])}>{each.limit}</a>
                      </td>
                      <td>{each.kind === 'blocks' ? 'blocked' : limitText(each.to)}</td>
                      <td>{duration(each.untilMs - live.nowMs)}</td>
                      <td class="reason">{each.reason || '–'}</td>
                      <td class="wide">{each.by}</td>
                      {scope === 'write' && (
                        <td class="number">
                          <Lift each={each} onSure={() => void action.run(() => api.lift(each.kind, each.id))} />
                        </td>
                      )}
                    </tr>
                  ))}
                </tbody>
              </table>
              {!isAll && <p class="hint">There are more: the last ones are shown, and the admin API has all.</p>}
            </div>
          )
        }}
      </Loaded>
    </Panel>
  )
}

function Lift({ each, onSure }: { readonly each: Listed; readonly onSure: () => void }) {
  const what = each.kind === 'blocks' ? 'block' : 'override'
  return (
    <Sure button="Lift" title={`Lift this ${what} of ${each.limit}?`} onSure={onSure} tone="">
      <p>The rules hold for this key again, at once.</p>
    </Sure>
  )
}
