import type { Reply } from './reply.ts'

/** What came of asking for a key: nobody has it and it is yours, somebody works on it, or the reply of who did. */
export type Begun = 'first' | 'running' | Reply

/**
 * Where keys and replies are kept. A store that answers at once is asked without a promise; one that cannot answer in time
 * rejects. Names are hashes of fixed length.
 */
export interface Replies {
  /** Of all who ask for a name that is free, one is first. Its name is free again after `lockMs`, unless it finishes before. */
  begin(name: string, token: string, lockMs: number): Begun | Promise<Begun>
  /**
   * Keeps the reply for `ttlMs`, or frees the name if there is none. False if somebody else has the name by now: then nothing
   * is changed. A name that is free takes the reply, as its holder was only late.
   */
  finish(name: string, token: string, reply: Reply | undefined, ttlMs: number): boolean | Promise<boolean>
}

/** The store was not asked, as it has failed too often just before. */
export class NotAsked extends Error {}
