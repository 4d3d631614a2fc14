import type { Terminal } from './index.ts'

interface Options {
  readonly admin: string
  readonly json?: boolean
}

/** Asks the admin port; prints why not, if it cannot. */
async function ask(path: string, method: string, { admin }: Options, { env, err }: Terminal): Promise<unknown> {
  const token = env.HEADGATE_ADMIN_TOKEN ?? env.HEADGATE_ADMIN_READ_TOKEN
  const headers = new Headers(token === undefined ? [] : [['authorization', `Bearer ${token}`]])
  try {
    const response = await fetch(new URL(path, admin), { method, headers })
    const text = await response.text()
    if (response.ok) return text === '' ? {} : JSON.parse(text)
    err.write(`${admin} says ${response.status}: ${text}\n`)
    if (response.status === 401) err.write('Set HEADGATE_ADMIN_TOKEN to the token that was printed at the start.\n')
  } catch (error) {
    const { cause, message } = error as Error
    err.write(`${admin} does not answer: ${cause instanceof Error ? cause.message : message}\n`)
  }
  return undefined
}

export async function inspect(limit: string, key: string, options: Options, terminal: Terminal): Promise<number> {
  return show(await ask(pathOf(limit, key), 'GET', options, terminal), options, terminal)
}

export async function reset(limit: string, key: string, options: Options, terminal: Terminal): Promise<number> {
  return show(await ask(pathOf(limit, key), 'DELETE', options, terminal), options, terminal)
}

function pathOf(limit: string, key: string): string {
  return `/admin/v1/keys/${encodeURIComponent(limit)}/${encodeURIComponent(key)}`
}

function show(answer: unknown, { json }: Options, { out }: Terminal): number {
  if (answer === undefined) return 1
  if (json) out.write(`${JSON.stringify(answer, null, 2)}\n`)
  else
    for (const [name, value] of Object.entries(answer as object))
      out.write(`${name.padEnd(16)} ${typeof value === 'object' ? JSON.stringify(value) : value}\n`)
  return 0
}

interface TopEntry {
  readonly limit: string
  readonly key: string
  readonly count: number
  readonly denied?: number
}

const REFRESH_MS = 1000
const BAR = 30

/** The busiest keys: once, or again every second on a terminal. */
export async function top(
  options: Options & { readonly n: string; readonly once?: boolean },
  terminal: Terminal,
): Promise<number> {
  const { out } = terminal
  const live = out.isTTY === true && !options.once && !options.json
  for (;;) {
    const answer = await ask(`/admin/v1/top?n=${encodeURIComponent(options.n)}`, 'GET', options, terminal)
    if (answer === undefined) return 1
    if (options.json) out.write(`${JSON.stringify(answer, null, 2)}\n`)
    else out.write(`${live ? '\u001b[2J\u001b[H' : ''}${table((answer as { top?: TopEntry[] }).top ?? [])}`)
    if (!live) return 0
    await new Promise((resolve) => setTimeout(resolve, REFRESH_MS))
  }
}

function table(entries: readonly TopEntry[]): string {
  if (entries.length === 0) return 'No decisions yet.\n'
  const most = Math.max(...entries.map(({ count }) => count))
  const lines = entries.map(({ limit, key, count, denied = 0 }) => {
    const bar = '█'.repeat(Math.max(1, Math.round((count / most) * BAR)))
    return `${limit.padEnd(16)} ${key.padEnd(24)} ${String(count).padStart(9)} ${String(denied).padStart(9)}  ${bar}`
  })
  return `${'limit'.padEnd(16)} ${'key'.padEnd(24)} ${'decisions'.padStart(9)} ${'denied'.padStart(9)}\n${lines.join('\n')}\n`
}
