// Structured fields (RFC 9651), read leniently: what a server sent crooked is still worth what can be told for certain.

/** Longer fields are cut, so that no server can keep a caller busy. */
export const LONGEST_FIELD = 16_384
export const MOST_MEMBERS = 1_024

export type Bare =
  | { readonly type: 'integer' | 'decimal'; readonly value: number }
  | { readonly type: 'boolean'; readonly value: boolean }
  /** `bytes` stay in base64; `other` is a date or a display string, as written: valid, but no field here has a use for it. */
  | { readonly type: 'string' | 'token' | 'bytes' | 'other'; readonly value: string }

export type Params = ReadonlyMap<string, Bare>
export type Item = Bare & { readonly params: Params }
export type Member = Item & { readonly key: string }

/** The items of a List, without the malformed ones and the inner lists. */
export function parseList(text: string): Item[] {
  return members(text, readItem)
}

/** The members of a Dictionary in order. A repeated key is kept: two servers on the way may each have sent a field line. */
export function parseDictionary(text: string): Member[] {
  return members(text, readMember)
}

/** Looks at each character twice at most: once to read the member, once to skip it. */
function members<T>(text: string, read: (from: Scanner) => T | undefined): T[] {
  const scanner = new Scanner(text)
  const found: T[] = []
  for (let count = 0; count < MOST_MEMBERS && scanner.at < scanner.end; count++) {
    const start = scanner.at
    scanner.blanks()
    const member = read(scanner)
    scanner.blanks()
    const isWhole = member !== undefined && scanner.isAtMemberEnd()
    if (!isWhole) scanner.skipMember(start)
    if (isWhole && !scanner.isAtCut()) found.push(member)
    scanner.at++
  }
  return found
}

function readMember(from: Scanner): Member | undefined {
  const key = readKey(from)
  if (key === '') return undefined
  const item = from.eat('=') ? readItem(from) : withParams(from, { type: 'boolean', value: true })
  return item && { ...item, key }
}

function readItem(from: Scanner): Item | undefined {
  const bare = readBare(from)
  return bare && withParams(from, bare)
}

function withParams(from: Scanner, bare: Bare): Item | undefined {
  const params = new Map<string, Bare>()
  for (;;) {
    from.blanks()
    if (!from.eat(';')) return { ...bare, params }
    from.blanks()
    const key = readKey(from)
    const value: Bare | undefined = from.eat('=') ? readBare(from) : { type: 'boolean', value: true }
    if (key === '' || value === undefined) return undefined
    params.set(key, value)
  }
}

/** Capitals are not allowed, but nobody means another parameter by them. */
function readKey(from: Scanner): string {
  return /[a-z*]/i.test(from.peek()) ? from.run(/[\w.*-]/).toLowerCase() : ''
}

function readBare(from: Scanner): Bare | undefined {
  const first = from.peek()
  if (/[-\d]/.test(first)) return readNumber(from)
  if (/[a-z*]/i.test(first)) return { type: 'token', value: from.run(/[\w!#$%&'*+.^`|~:/-]/) }
  switch (from.next()) {
    case '"':
      return readString(from)
    case ':':
      return closed(from, { type: 'bytes', value: from.run(/[a-z\d+/=]/i) }, ':')
    case '?':
      return /[01]/.test(from.peek()) ? { type: 'boolean', value: from.next() === '1' } : undefined
    case '@':
      return readNumber(from)?.type === 'integer' ? { type: 'other', value: '' } : undefined
    case '%':
      return from.eat('"') ? closed(from, { type: 'other', value: from.run(/[ !#-~]/) }, '"') : undefined
    default:
      return undefined
  }
}

function closed(from: Scanner, bare: Bare, end: string): Bare | undefined {
  return from.eat(end) ? bare : undefined
}

/** At most 15 digits, or 12 and up to 3 behind the point: what a double holds exactly. */
function readNumber(from: Scanner): Bare | undefined {
  const start = from.at
  from.eat('-')
  const whole = from.run(/\d/).length
  const part = from.eat('.') ? from.run(/\d/).length : undefined
  const isFit = part === undefined ? whole <= 15 : whole <= 12 && part >= 1 && part <= 3
  if (whole === 0 || !isFit) return undefined
  // Adding 0 turns -0 into 0.
  return { type: part === undefined ? 'integer' : 'decimal', value: Number(from.since(start)) + 0 }
}

function readString(from: Scanner): Bare | undefined {
  let value = ''
  for (;;) {
    value += from.run(/[ !#-[\]-~]/)
    if (from.eat('"')) return { type: 'string', value }
    if (!from.eat('\\') || !/["\\]/.test(from.peek())) return undefined
    value += from.next()
  }
}

class Scanner {
  at = 0
  readonly end: number
  readonly #text: string

  constructor(text: string) {
    this.#text = text
    this.end = Math.min(text.length, LONGEST_FIELD)
  }

  /** The character here; none at the end, which no pattern matches. */
  peek(): string {
    return this.at < this.end ? this.#text.charAt(this.at) : ''
  }

  next(): string {
    const char = this.peek()
    this.at += char.length
    return char
  }

  eat(char: string): boolean {
    if (this.peek() !== char) return false
    this.at++
    return true
  }

  run(chars: RegExp): string {
    const start = this.at
    while (chars.test(this.peek())) this.at++
    return this.since(start)
  }

  since(start: number): string {
    return this.#text.slice(start, this.at)
  }

  blanks(): void {
    this.run(/[ \t]/)
  }

  isAtMemberEnd(): boolean {
    return this.at >= this.end || this.peek() === ','
  }

  /** What touches the cut may go on behind it: `r=12` may have been `r=1200`. */
  isAtCut(): boolean {
    return this.at >= this.end && this.#text.length > this.end
  }

  /** On to the comma that ends the member from `start`. A quote left open ends nowhere, and swallows the rest. */
  skipMember(start: number): void {
    let quoted = false
    for (this.at = start; this.at < this.end; this.at++) {
      const char = this.peek()
      if (char === ',' && !quoted) return
      if (char === '"') quoted = !quoted
      else if (char === '\\' && quoted) this.at++
    }
  }
}
