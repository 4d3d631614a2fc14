import { randomInt } from 'node:crypto'
import type { Redis } from 'ioredis'

export interface Link {
  readonly url: string
  readonly createdAt: string
}

export interface Links {
  /** Whether the code was free. */
  add(code: string, link: Link): Promise<boolean>
  find(code: string): Promise<Link | undefined>
  /** Counts one visit of a link that exists. */
  visit(code: string): Promise<void>
  visits(code: string): Promise<number>
}

/** Grows by what the limits on creating let in, and goes with the process. */
export function memoryLinks(links = new Map<string, Link>()): Links {
  const visits = new Map<string, number>()
  return {
    async add(code, link) {
      if (links.has(code)) return false
      links.set(code, link)
      return true
    },
    find: async (code) => links.get(code),
    visit: async (code) => void visits.set(code, (visits.get(code) ?? 0) + 1),
    visits: async (code) => visits.get(code) ?? 0,
  }
}

export function redisLinks(client: Redis): Links {
  return {
    add: async (code, link) => (await client.set(`link:${code}`, JSON.stringify(link), 'NX')) === 'OK',
    async find(code) {
      const text = await client.get(`link:${code}`)
      return text === null ? undefined : (JSON.parse(text) as Link)
    },
    visit: async (code) => void (await client.incr(`visits:${code}`)),
    visits: async (code) => Number(await client.get(`visits:${code}`)),
  }
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const LENGTH = 8
const CODE = new RegExp(`^[${DIGITS}]{${LENGTH}}$`)
const MOST_TRIES = 3

/** Of 2 × 10^14 codes, from a source that cannot be foretold: who may look 1,000 times a minute finds one of a million links in
 *  five months. */
function newCode(): string {
  return Array.from({ length: LENGTH }, () => DIGITS[randomInt(DIGITS.length)]).join('')
}

export function isCode(text: unknown): text is string {
  return typeof text === 'string' && CODE.test(text)
}

/** Stores a link under a code of its own. */
export async function addLink(links: Links, link: Link): Promise<string> {
  for (let tries = 1; tries <= MOST_TRIES; tries++) {
    const code = newCode()
    if (await links.add(code, link)) return code
  }
  throw new Error(`no free code in ${MOST_TRIES} tries`)
}
