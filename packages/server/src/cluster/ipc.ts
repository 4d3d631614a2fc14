import type { Message, Reply } from 'headgate/remote'

/** What goes between a primary and its workers beside all else they say to each other: the name tells ours. */
export interface Asked {
  readonly headgate: 'asked'
  readonly seq: number
  readonly message: Message
}

export interface Answered {
  readonly headgate: 'answered'
  readonly seq: number
  readonly reply?: Reply
  /** In place of a reply, when the message was none. */
  readonly error?: string
}

/** A process at the other end: `process` of a worker, a child of `fork`, or a worker of `cluster`. */
export interface Channel {
  readonly connected?: boolean
  send?(message: object, callback?: (error: Error | null) => void): boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
  on(event: 'disconnect', listener: () => void): unknown
  off(event: 'message', listener: (message: unknown) => void): unknown
  off(event: 'disconnect', listener: () => void): unknown
}

export function isOurs<K extends 'asked' | 'answered'>(
  message: unknown,
  kind: K,
): message is K extends 'asked' ? Asked : Answered {
  const { headgate, seq } = (message ?? {}) as Partial<Asked | Answered>
  return headgate === kind && typeof seq === 'number'
}
