import { type FSWatcher, realpathSync, statSync, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'

/** Editors write a file in several steps, and a deployment swaps links: what comes within this time is one change. */
const QUIET_MS = 100
/** How often files are looked at, for what nobody tells: a link above the folder that was swapped, a folder that was made anew. */
const LOOK_MS = 5_000

/** Calls back when one of the files changed, or what is in the folders: those that it was told last. */
export class Watch {
  readonly #changed: () => void
  readonly #looks: NodeJS.Timeout
  #files: readonly string[] = []
  #folders: readonly string[] = []
  /** What each path led to when it was last told of. */
  #seen = new Map<string, string>()
  #close = () => {}
  #timer: NodeJS.Timeout | undefined

  constructor(changed: () => void, lookMs = LOOK_MS) {
    this.#changed = changed
    this.#looks = setInterval(() => this.#look(), lookMs)
    this.#looks.unref()
  }

  /** What changed after it was read is told all the same: there is no moment in which nobody watches. */
  these(files: readonly string[], folders: readonly string[]): void {
    const closeBefore = this.#close
    this.#close = watchFiles(files, folders, () => this.#soon())
    closeBefore()
    this.#files = files
    this.#folders = folders
    this.#seen = new Map([...files, ...folders].map((path) => [path, this.#seen.get(path) ?? stateOf(path)]))
  }

  #look(): void {
    if (this.#timer !== undefined) return // it is about to be told
    if ([...this.#seen].some(([path, state]) => stateOf(path) !== state)) this.#soon()
  }

  #soon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#tell(), QUIET_MS)
    this.#timer.unref()
  }

  /** Watches anew first: the paths may lead elsewhere by now, also where what is found there cannot be used. */
  #tell(): void {
    this.#timer = undefined
    this.#seen.clear()
    this.these(this.#files, this.#folders)
    this.#changed()
  }

  close(): void {
    clearInterval(this.#looks)
    clearTimeout(this.#timer)
    this.#close()
  }
}

/** Another after each change, by whichever way it came. */
function stateOf(path: string): string {
  try {
    const { dev, ino, size, mtimeMs } = statSync(path)
    return `${dev} ${ino} ${size} ${mtimeMs}`
  } catch {
    return 'away'
  }
}

/** Folders are watched, as files are replaced; also those that links lead to. */
function watchFiles(files: readonly string[], folders: readonly string[], soon: () => void): () => void {
  const names = new Set(files.flatMap((file) => [resolve(file), realOf(file)]))
  const whole = new Set(folders.map((folder) => resolve(folder)))
  const watchers: FSWatcher[] = []
  for (const folder of new Set([...[...names].map((file) => dirname(file)), ...whole])) {
    const watcher = watcherOf(folder, (name) => {
      // A link that is swapped, as by Kubernetes, has a name that is none of ours.
      if (name === null || whole.has(folder) || names.has(resolve(folder, name)) || name.startsWith('..')) soon()
    })
    if (watcher !== undefined) watchers.push(watcher)
  }
  return () => {
    for (const watcher of watchers) watcher.close()
  }
}

function realOf(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return resolve(file)
  }
}

/** Undefined: there is no such folder. Whether it comes back is looked for. */
function watcherOf(folder: string, changed: (name: string | null) => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, (_event, name) => changed(name))
    watcher.on('error', () => {}) // a folder that is gone is told by the next reload
    return watcher
  } catch {
    return undefined
  }
}
