import { setTimeout as pause } from 'node:timers/promises'
import { AdminClient } from './admin.ts'
import type { Output, Signals, Terminal } from './index.ts'
import { Misuse } from './misuse.ts'
import { aligned, json, plain } from './text.ts'

interface Options {
  readonly admin: string
  readonly json?: boolean
  readonly limit?: string
  readonly n: string
  readonly reveal?: boolean
  readonly once?: boolean
}

/** What `GET /admin/v1/top` answers. */
interface Top {
  readonly halfLifeMs: number
  readonly limits: readonly { readonly name: string; readonly keys: readonly Busy[] }[]
}

interface Busy {
  /** Absent: one counter for everybody. */
  readonly key?: string | readonly string[]
  readonly count: number
  readonly denied: number
}

const REFRESH_MS = 1000
const MOST_KEYS = 100
const WIDEST_KEY = 40
const BAR = 20

/** The busiest keys: once, or again every second on a terminal. */
export async function top(options: Options, { env, out, signals }: Terminal): Promise<number> {
  const n = Number(options.n)
  if (!Number.isInteger(n) || n < 1 || n > MOST_KEYS) throw new Misuse(`-n is a whole number from 1 to ${MOST_KEYS}.`)
  const admin = new AdminClient(options.admin, env)
  const query = new URLSearchParams({ n: options.n })
  if (options.limit !== undefined) query.set('limit', options.limit)
  if (options.reveal) query.set('reveal', 'true')
  const ask = async () => (await admin.ask('GET', `/admin/v1/top?${query}`)) as Top
  const first = await ask()
  const lines = (answer: Top) => linesOf(answer, n)
  if (options.json) out.write(json(first))
  else if (out.isTTY !== true || options.once) out.write(lines(first).join(''))
  else await live(lines(first), async () => lines(await ask()), out, signals)
  return 0
}

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'

/** On a screen of its own until a signal ends it, so that what was on the terminal is there again afterwards. */
async function live(
  first: readonly string[],
  ask: () => Promise<string[]>,
  out: Output,
  signals: Signals,
): Promise<void> {
  const ended = new AbortController()
  const end = () => ended.abort()
  let lines = first
  const draw = () => out.write(frame(lines, out))
  for (const signal of SIGNALS) signals.on(signal, end)
  out.on?.('resize', draw)
  out.write(ENTER)
  try {
    while (!ended.signal.aborted) {
      draw()
      await pause(REFRESH_MS, undefined, { signal: ended.signal }).catch(() => {})
      // A service that is being restarted comes back.
      if (!ended.signal.aborted) lines = await ask().catch((error: Error) => [`${plain(error.message)}\n`])
    }
  } finally {
    out.write(LEAVE)
    out.off?.('resize', draw)
    for (const signal of SIGNALS) signals.off(signal, end)
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** From the upper left, each line to its end: without clearing all first, nothing flickers. */
function frame(lines: readonly string[], { columns = 80, rows = 24 }: Output): string {
  const shown = lines.slice(0, rows - 1).map((line) => `${line.trimEnd().slice(0, columns)}\u001b[K\n`)
  return `\u001b[H${shown.join('')}\u001b[J`
}

function linesOf({ limits, halfLifeMs }: Top, n: number): string[] {
  const all = limits.flatMap(({ name, keys }) => keys.map((each) => ({ name, ...each })))
  const busiest = all.sort((a, b) => b.count - a.count).slice(0, n)
  if (busiest.length === 0) return ['No decisions yet.\n']
  const most = Math.max(1, ...busiest.map(({ count }) => count))
  const numbers = (column: 'count' | 'denied') =>
    Math.max(column.length, ...busiest.map((each) => String(each[column]).length))
  const [counts, denials] = [numbers('count'), numbers('denied')]
  const rows = busiest.map(({ name, key, count, denied }) => [
    name,
    keyText(key),
    String(count).padStart(counts),
    String(denied).padStart(denials),
    '█'.repeat(Math.max(1, Math.round((count / most) * BAR))),
  ])
  const head = [
    'limit',
    'key',
    'count'.padStart(counts),
    'denied'.padStart(denials),
    `half in ${halfLifeMs / 60_000} min`,
  ]
  return aligned([head, ...rows]).split(/(?<=\n)/)
}

function keyText(key: Busy['key']): string {
  const text = key === undefined ? '(all)' : plain([key].flat().join(', '))
  return text.length > WIDEST_KEY ? `${text.slice(0, WIDEST_KEY - 1)}…` : text
}
