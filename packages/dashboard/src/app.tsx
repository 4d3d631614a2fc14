import { useEffect, useMemo, useState } from 'preact/hooks'
import { Api, ApiError } from './api.ts'
import { duration } from './format.ts'
import { type Desk, DeskContext, useDesk, useLive, useRoute } from './hooks.ts'
import { Live } from './live.ts'
import { Login } from './login.tsx'
import type { Route } from './route.ts'
import { draft } from './rules/draft.ts'
import { session } from './session.ts'
import type { Scope } from './types.ts'
import { Note, Pill, wordsOf } from './ui.tsx'
import { ChaosView } from './views/chaos.tsx'
import { KeyView } from './views/key.tsx'
import { KeysView } from './views/keys.tsx'
import { LimitView } from './views/limit.tsx'
import { PlaygroundView } from './views/playground.tsx'
import { RulesView } from './views/rules.tsx'
import { TrafficView } from './views/traffic.tsx'

const VIEWS = [
  ['', 'Traffic'],
  ['keys', 'Keys'],
  ['rules', 'Rules'],
  ['playground', 'Playground'],
  ['chaos', 'Chaos'],
] as const

export function App() {
  const [token, setToken] = useState(session.token)
  const [complaint, setComplaint] = useState<string | undefined>()
  const leave = (why?: string) => {
    session.forget()
    draft.keep(undefined)
    setComplaint(why)
    setToken(undefined)
  }
  if (token === undefined)
    return (
      <Login
        complaint={complaint}
        onToken={(given) => {
          session.keep(given)
          setComplaint(undefined)
          setToken(given)
        }}
      />
    )
  return <Entered key={token} token={token} onLeave={leave} />
}

/** Finds out what the token may do; until then nothing is shown that it might not. */
function Entered({ token, onLeave }: { readonly token: string; readonly onLeave: (why?: string) => void }) {
  const api = useMemo(() => new Api(token, () => onLeave('The service does not know this token (any more).')), [token])
  const [scope, setScope] = useState<Scope | undefined>()
  const [error, setError] = useState<Error | undefined>()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = () => {
      api.scope().then(setScope, (failure: Error) => {
        setError(failure)
        if (!(failure instanceof ApiError && failure.status === 401)) timer = setTimeout(ask, 2_000)
      })
    }
    ask()
    return () => clearTimeout(timer)
  }, [api])
  if (scope !== undefined) return <Inside api={api} scope={scope} onLeave={() => onLeave()} />
  return <p class="boot">{error === undefined ? 'Loading …' : `${wordsOf(error)} Trying again …`}</p>
}

function Inside({ api, scope, onLeave }: { readonly api: Api; readonly scope: Scope; readonly onLeave: () => void }) {
  const live = useMemo(() => new Live(api), [api])
  useEffect(() => () => live.close(), [live])
  const desk: Desk = useMemo(() => ({ api, live, scope }), [api, live, scope])
  return (
    <DeskContext.Provider value={desk}>
      <Frame onLeave={onLeave} />
    </DeskContext.Provider>
  )
}

function Frame({ onLeave }: { readonly onLeave: () => void }) {
  const route = useRoute()
  const [section = ''] = route.path
  const here = section === 'limits' ? '' : section
  useEffect(() => {
    document.title = `${VIEWS.find(([path]) => path === here)?.[1] ?? 'Not found'} · Headgate`
  }, [here])
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to content
      </button>
      <header class="bar">
        <a class="brand" href="#/">
          Headgate
        </a>
        <nav aria-label="Views">
          {VIEWS.map(([path, name]) => (
            <a key={path} href={`#/${path}`} aria-current={path === here ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <Status onLeave={onLeave} />
      </header>
      <Lost />
      <main id="main" tabIndex={-1}>
        <View route={route} />
      </main>
    </>
  )
}

function Status({ onLeave }: { readonly onLeave: () => void }) {
  const { connection, storeState, generation } = useLive()
  const { scope } = useDesk()
  const words = { live: 'live', connecting: 'connecting', lost: 'disconnected' } as const
  return (
    <div class="status">
      <Pill tone={connection === 'live' ? 'good' : connection === 'lost' ? 'bad' : 'plain'}>{words[connection]}</Pill>
      {storeState === 'down' && (
        <Pill tone="bad" title="Decisions are made without it, as the rules say">
          store down
        </Pill>
      )}
      {generation !== undefined && <Pill title="Of the rules that hold">generation {generation}</Pill>}
      {scope === 'read' && <Pill title="This token may look and not change">read only</Pill>}
      <button type="button" class="quiet" onClick={onLeave}>
        Log out
      </button>
    </div>
  )
}

function Lost() {
  const { connection, heardMs } = useLive()
  if (connection !== 'lost') return null
  return (
    <div class="lost">
      <Note tone="warn">
        The service does not answer. {/* Not to be read out every second. */}
        {heardMs > 0 && <span aria-hidden="true">Figures are {duration(Date.now() - heardMs)} old. </span>}
        Trying again …
      </Note>
    </div>
  )
}

function View({ route }: { readonly route: Route }) {
  const [section, ...rest] = route.path
  if (section === undefined) return <TrafficView route={route} />
  if (section === 'limits' && rest.length === 1)
    return <LimitView key={rest[0]} name={rest[0] as string} route={route} />
  if (section === 'keys' && rest.length === 0) return <KeysView route={route} />
  if (section === 'keys') return <KeyView key={rest.join('/')} limit={rest[0] as string} parts={rest.slice(1)} />
  if (section === 'rules' && rest.length === 0) return <RulesView />
  if (section === 'playground' && rest.length === 0) return <PlaygroundView route={route} />
  if (section === 'chaos' && rest.length === 0) return <ChaosView route={route} />
  return (
    <>
      <h1>Not found</h1>
      <p class="empty">
        There is nothing at this address. <a href="#/">Traffic</a> is a good place to start.
      </p>
    </>
  )
}
