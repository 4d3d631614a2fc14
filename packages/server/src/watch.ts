import { type FSWatcher, watch } from 'node:fs'
import { dirname, resolve } from 'node:path'

/** Editors write a file in several steps, and a deployment swaps links: what comes within this time is one change. */
const QUIET_MS = 100

/** Calls back when one of the files changed, or what is in the folders. Folders are watched, as files are replaced. */
export function watchFiles(files: readonly string[], folders: readonly string[], changed: () => void): () => void {
  const names = new Set(files.map((file) => resolve(file)))
  const whole = new Set(folders.map((folder) => resolve(folder)))
  let timer: NodeJS.Timeout | undefined
  const soon = () => {
    clearTimeout(timer)
    timer = setTimeout(changed, QUIET_MS)
    timer.unref()
  }
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
    clearTimeout(timer)
    for (const watcher of watchers) watcher.close()
  }
}
