import { Problem } from './problems.ts'

const LONGEST = 2048

/** The address that a body asks to shorten, as browsers write it: that form is ASCII and safe in a header. */
export function targetOf(body: unknown): string {
  const url = (body as { url?: unknown } | null | undefined)?.url
  if (typeof url !== 'string') throw new Problem(400, 'Send JSON such as {"url":"https://example.com/"}.')
  if (!URL.canParse(url)) throw new Problem(400, 'This is no address.')
  const { protocol, href } = new URL(url)
  // Others run code or open files where they are clicked.
  if (protocol !== 'http:' && protocol !== 'https:') throw new Problem(400, 'Only http and https can be shortened.')
  if (href.length > LONGEST) throw new Problem(400, `An address has at most ${LONGEST} characters.`)
  return href
}
