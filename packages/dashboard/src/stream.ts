import { type Api, ApiError } from './api.ts'
import { EventParser, type ServerEvent } from './event-parser.ts'

export type Connection = 'connecting' | 'live' | 'lost'

export interface Listener {
  onEvent(event: ServerEvent): void
  onConnection(state: Connection): void
}

/** The service says something at least every 15 seconds. */
const SILENCE_MS = 20_000
const [SHORTEST_MS, LONGEST_MS] = [500, 8_000]
const HIDDEN_MS = 3_000
/** An id that no process has: whoever asks with it is told all that is still known. */
const EVERYTHING = 'all-0'

/** Follows what happens until told to stop. By fetch, as an EventSource sends no token. */
export function follow(api: Api, listener: Listener): () => void {
  const stopped = new AbortController()
  void run(api, listener, stopped.signal)
  return () => stopped.abort()
}

async function run(api: Api, listener: Listener, signal: AbortSignal): Promise<void> {
  let lastId = EVERYTHING
  let waitMs = SHORTEST_MS
  while (!signal.aborted) {
    if (waitMs === SHORTEST_MS) listener.onConnection('connecting')
    await untilSeen(signal)
    const hidden = whenHidden()
    try {
      for await (const event of eventsOf(api, lastId, AbortSignal.any([signal, hidden.signal]))) {
        if (event.id !== undefined) lastId = event.id
        if (event.event === 'hello') listener.onConnection('live')
        waitMs = SHORTEST_MS
        listener.onEvent(event)
      }
    } catch (error) {
      // Somebody has said so already.
      if (error instanceof ApiError && error.status === 401) return
    } finally {
      hidden.forget()
    }
    if (hidden.signal.aborted || signal.aborted) continue
    listener.onConnection('lost')
    await pause(waitMs * (0.5 + Math.random() / 2), signal)
    waitMs = Math.min(LONGEST_MS, waitMs * 2)
  }
}

async function* eventsOf(api: Api, lastId: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const silent = new AbortController()
  const headers = { 'Last-Event-ID': lastId }
  let timer = setTimeout(() => silent.abort(), SILENCE_MS)
  try {
    const { body } = await api.ask('GET', 'events', { headers, signal: AbortSignal.any([signal, silent.signal]) })
    const reader = (body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new TextDecoderStream()).getReader()
    const parser = new EventParser()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(timer)
      timer = setTimeout(() => silent.abort(), SILENCE_MS)
      yield* parser.push(value)
    }
  } finally {
    clearTimeout(timer)
    silent.abort()
  }
}

/** Also over as soon as the machine is on the network again. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    function done(): void {
      clearTimeout(timer)
      removeEventListener('online', done)
      resolve()
    }
    addEventListener('online', done)
    signal.addEventListener('abort', done, { once: true })
  })
}

/** Browsers have few connections for a host: a page that nobody sees leaves its own to others. */
function whenHidden(): { readonly signal: AbortSignal; forget(): void } {
  const hidden = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const look = () => {
    clearTimeout(timer)
    if (document.hidden) timer = setTimeout(() => hidden.abort(), HIDDEN_MS)
  }
  document.addEventListener('visibilitychange', look)
  const forget = () => {
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', look)
  }
  return { signal: hidden.signal, forget }
}

function untilSeen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return
      document.removeEventListener('visibilitychange', look)
      resolve()
    }
    document.addEventListener('visibilitychange', look)
    signal.addEventListener('abort', look, { once: true })
    look()
  })
}
