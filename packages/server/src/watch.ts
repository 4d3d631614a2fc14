import { type FSWatcher, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'

/** Editors write a file in several steps, and a deployment swaps links: what comes within this time is one change. */
const QUIET_MS = 100

/** Calls back when one of the files changed, or what is in the folders: those that it was told last. */
export class Watch {
  readonly #changed: () => void
  #close = () => {}
  #timer: NodeJS.Timeout | undefined

  constructor(changed: () => void) {
    this.#changed = changed
  }

  /** What changed after it was read is told all the same: there is no moment in which nobody watches. */
  these(files: readonly string[], folders: readonly string[]): void {
    const closeBefore = this.#close
    this.#close = watchFiles(files, folders, () => this.#soon())
    closeBefore()
  }

  #soon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#changed, QUIET_MS)
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#close()
  }
}

/** Folders are watched, as files are replaced. */
function watchFiles(files: readonly string[], folders: readonly string[], soon: () => void): () => void {
  const names = new Set(files.map((file) => resolve(file)))
  const whole = new Set(folders.map((folder) => resolve(folder)))
  const watchers: FSWatcher[] = []
  for (const folder of new Set([...[...names].map((file) => dirname(file)), ...whole])) {
    const watcher = watch(folder, { persistent: false }, (_event, name) => {
      // A link that is swapped, as by Kubernetes, has a name that is none of ours.
      if (name === null || whole.has(folder) || names.has(resolve(folder, name)) || name.startsWith('..')) soon()
    })
    watcher.on('error', () => {}) // a folder that is gone is told by the next reload
    watchers.push(watcher)
  }
  return () => {
    for (const watcher of watchers) watcher.close()
  }
}
