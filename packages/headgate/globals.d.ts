// All that the library may use beyond the language itself: Node, Bun, Deno, browsers and edge runtimes have these in common.
// A new line here is a promise about every runtime; `node:` imports and DOM types stay out.

declare const performance: { now(): number; readonly timeOrigin: number }
declare const crypto: { getRandomValues<T extends ArrayBufferView>(array: T): T }

// Node's timers keep a process alive until `unref`; elsewhere a timer is a number. Name the type by ReturnType<typeof setTimeout>.
declare function setTimeout<A extends unknown[]>(
  callback: (...args: A) => void,
  ms?: number,
  ...args: A
): { unref?(): unknown }
declare function clearTimeout(timer: { unref?(): unknown } | undefined): void
declare function queueMicrotask(callback: () => void): void

interface AbortSignal {
  readonly aborted: boolean
  readonly reason: unknown
  throwIfAborted(): void
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}
