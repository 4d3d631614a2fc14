// The command line as tests call it: in this process, or as the binary that was built.
import { spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { type Output, run } from '../src/cli/index.ts'

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url))

export interface Printed {
  readonly code: number
  readonly out: string
  readonly err: string
}

type Environment = Readonly<Record<string, string>>

/** Runs a command in this process. */
export async function headgate(args: readonly string[], env: Environment = {}): Promise<Printed> {
  const [out, err] = [collector(), collector()]
  const code = await run(args, env, out, err, new EventEmitter())
  return { code, out: out.text, err: err.text }
}

function collector(): Output & { text: string } {
  return {
    text: '',
    write(text) {
      this.text += text
    },
  }
}

/** A terminal of some size that keeps what was written to it. */
export class FakeTerminal extends EventEmitter implements Output {
  readonly isTTY = true
  columns = 80
  rows = 24
  text = ''

  write(text: string): void {
    this.text += text
  }
}

export interface Child {
  readonly out: () => string
  readonly err: () => string
  kill(signal: NodeJS.Signals): void
  /** Until standard error has this. */
  says(text: string | RegExp): Promise<string>
  exit(): Promise<{ code: number | null; signal: NodeJS.Signals | null }>
}

/** Runs the binary; it ends with the test at the latest. */
export function spawnHeadgate(args: readonly string[], env: Environment = {}): Child {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH ?? '', ...env } })
  const told = { out: '', err: '' }
  child.stdout.on('data', (chunk) => {
    told.out += chunk
  })
  child.stderr.on('data', (chunk) => {
    told.err += chunk
  })
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  onTestFinished(() => void child.kill('SIGKILL'))
  return {
    out: () => told.out,
    err: () => told.err,
    kill: (signal) => void child.kill(signal),
    says: (text) => until(String(text), () => (told.err.search(text) < 0 ? undefined : told.err)),
    exit: () => closed.then(([code, signal]) => ({ code, signal })),
  }
}

/** A file of these rules, gone with the test. */
export function rulesFile(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-cli-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'headgate.yaml')
  writeFileSync(file, text)
  return file
}
