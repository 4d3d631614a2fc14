// What a hello-world server looks like to the worker.

export const BARE = 'bare'
export const CONSTANT = 'constant headers'
export const OURS = 'headgate'
/** Ours with the header fields that the peer sends, or the nearest to them that we have. */
export const ALIKE = 'headgate, fields of the peer'

export const BODY = 'Hello, world'
/** So long that what remains is another number for every request, as it is in life. */
export const WINDOW_MS = 86_400_000

/** Listens on a free port of the loopback and says which. The limit is per day. */
export type StartServer = (limit: number) => Promise<number>
/** By the names of the variants. */
export type Servers = Readonly<Record<string, StartServer>>

/** What a middleware without a limiter would set: the names of ours, spelled as people write them, and values as long. Ours says
 *  names in lower case, which spares the framework a conversion. */
export const constantHeaders: readonly (readonly [name: string, value: string])[] = [
  ['RateLimit', '"default";r=999900000;t=0'],
  ['RateLimit-Policy', '"default";q=1000000000;w=86400'],
  ['X-RateLimit-Limit', '1000000000'],
  ['X-RateLimit-Remaining', '999900000'],
  ['X-RateLimit-Reset', '1800000000'],
  ['X-RateLimit-Resource', 'default'],
]
