// What every variant looks like to the harness. The two kinds are apart so that the synchronous loop contains no await.

export interface RivalOptions {
  readonly limit: number
  readonly windowMs: number
  /** How many keys will be used: one rival has a fixed cache and must be sized, or it forgets limits and looks fast. */
  readonly keys: number
}

export interface SyncRival {
  readonly kind: 'sync'
  take(key: string): boolean
}

/** `take` hands out the library's own promise: wrapping it would charge the rival for a second one. `read` looks at what it
 *  resolved to, or at what it was rejected with where a library rejects to deny. */
export interface AsyncRival<Answer = unknown> {
  readonly kind: 'async'
  take(key: string): Answer | Promise<Answer>
  read(answer: Answer): boolean
}

export type Rival = SyncRival | AsyncRival
export type CreateRival = (options: RivalOptions) => Rival

const kept = new Float64Array(2)

/** Takes the numbers a caller would put into headers. Stored where the compiler must assume they are read, so that making
 *  them cannot be skipped; a typed array, because a boxed number would charge every variant for an allocation. */
export function keep(remaining: number, waitMs: number): void {
  kept[0] = remaining
  kept[1] = waitMs
}
