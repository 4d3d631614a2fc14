import { createContext } from 'preact'
import { useCallback, useContext, useEffect, useReducer, useRef, useState } from 'preact/hooks'
import type { Api } from './api.ts'
import type { Live } from './live.ts'
import { parseRoute, type Route } from './route.ts'
import type { Scope } from './types.ts'

/** What a logged-in page works with. */
export interface Desk {
  readonly api: Api
  readonly live: Live
  readonly scope: Scope
}

export const DeskContext = createContext<Desk | undefined>(undefined)

export function useDesk(): Desk {
  return useContext(DeskContext) as Desk
}

/** Draws again when the stream has told something, at least once a second. */
export function useLive(): Live {
  const { live } = useDesk()
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  useEffect(() => live.subscribe(() => redraw(undefined)), [live])
  return live
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const follow = () => setHash(location.hash)
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return parseRoute(hash)
}

export interface Resource<T> {
  readonly data: T | undefined
  /** Why the data is missing, or old. */
  readonly error: Error | undefined
  reload(): void
}

/** Asks for something at once, whenever `deps` change, and every so often. What was known stays until there is something newer. */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  everyMs?: number,
): Resource<T> {
  const [state, setState] = useState<{ data: T | undefined; error: Error | undefined }>({
    data: undefined,
    error: undefined,
  })
  const [turn, again] = useReducer((n: number) => n + 1, 0)
  const latest = useRef(load)
  latest.current = load
  useEffect(() => {
    const left = new AbortController()
    const ask = async () => {
      try {
        const data = await latest.current(left.signal)
        if (!left.signal.aborted) setState({ data, error: undefined })
      } catch (error) {
        if (!left.signal.aborted) setState(({ data }) => ({ data, error: error as Error }))
      }
    }
    void ask()
    const timer = everyMs === undefined ? undefined : setInterval(() => void (document.hidden || ask()), everyMs)
    return () => {
      left.abort()
      clearInterval(timer)
    }
  }, [...deps, turn])
  return { ...state, reload: useCallback(() => again(undefined), []) }
}

export interface Action {
  readonly isBusy: boolean
  readonly error: Error | undefined
  run(act: () => Promise<unknown>): Promise<boolean>
}

/** Something that somebody does: one at a time, and what came of it. */
export function useAction(): Action {
  const [state, setState] = useState<{ isBusy: boolean; error: Error | undefined }>({ isBusy: false, error: undefined })
  const run = async (act: () => Promise<unknown>) => {
    setState({ isBusy: true, error: undefined })
    try {
      await act()
      setState({ isBusy: false, error: undefined })
      return true
    } catch (error) {
      setState({ isBusy: false, error: error as Error })
      return false
    }
  }
  return { ...state, run }
}
