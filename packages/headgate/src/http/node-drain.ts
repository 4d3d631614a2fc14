import type { Method, Open } from './node-meter.ts'

type Listener = Method & { readonly listener?: Method }

/**
 * Keeps those who wait for `drain` here, and returns what tells them. What stands in front may keep them for itself: `compression`
 * has them listen to its own stream, which knows nothing of a writer that waits for a store.
 */
export function drainOf(res: Open): () => void {
  const waiting = new Set<Listener>()
  const tell = () => {
    for (const each of [...waiting]) each.call(res)
  }
  res.on('drain', tell)
  const add = (listener: Listener) => void waiting.add(listener)
  const remove = (listener: Listener) => {
    for (const each of waiting) if (each === listener || each.listener === listener) waiting.delete(each)
  }
  // `once` comes by `on`, with a wrapper that has itself removed.
  hook(res, { on: add, addListener: add, off: remove, removeListener: remove })
  return tell
}

function hook(res: Open, hooks: Record<string, (listener: Listener) => void>): void {
  const methods = res as unknown as Record<string, Method>
  for (const [name, own] of Object.entries(hooks)) {
    const real = methods[name] as Method
    methods[name] = (event, listener) => {
      if (event !== 'drain') return real.call(res, event, listener)
      own(listener as Listener)
      return res
    }
  }
}
