import { stringify } from 'yaml'
import { type Loaded, parseRules, type Rules, RulesError } from '../config/index.ts'
import { readText } from './body.ts'
import type { Desk, RulesChange } from './desk.ts'
import { changesOf, wouldHave } from './preview.ts'
import { AdminError } from './problem.ts'
import type { Call, Reply, Route } from './route.ts'
import { hasSecrets, MASKED, withoutSecrets } from './secrets.ts'

const MOST_BYTES = 1_048_576
const YAML = 'application/yaml'
const types = ['application/json', YAML, 'application/x-yaml', 'text/yaml', 'text/x-yaml', 'text/plain']

export function rulesRoutes(desk: Desk): Route[] {
  const board = new Board(desk)
  return [
    { method: 'GET', path: '/admin/v1/rules', scope: 'read', run: (call) => board.get(call) },
    { method: 'PUT', path: '/admin/v1/rules', scope: 'write', run: (call) => board.put(call) },
    { method: 'POST', path: '/admin/v1/rules/check', scope: 'write', run: (call) => board.check(call) },
    { method: 'POST', path: '/admin/v1/reload', scope: 'write', run: (call) => board.reload(call) },
  ]
}

/** Where rules are read and changed, one change after the other. */
class Board {
  readonly #desk: Desk
  /** As they were sent last. */
  #sent: { readonly text: string; readonly generation: number } | undefined
  #turn: Promise<unknown> = Promise.resolve()

  constructor(desk: Desk) {
    this.#desk = desk
  }

  get #generation(): number {
    return this.#desk.service.rules.generation
  }

  get(call: Call): Reply {
    const headers = { ETag: `"${this.#generation}"`, Vary: 'Accept' }
    if (call.reveal) this.#desk.audit.record(call, 'reveal')
    const { rules } = this.#desk.service.rules
    const wanted = call.req.headers.accept ?? ''
    const text = /json/i.test(wanted) ? undefined : this.#text(call.reveal)
    if (text !== undefined) return { headers, text, type: YAML }
    const told = call.reveal ? rules : withoutSecrets(rules)
    return /yaml/i.test(wanted) ? { headers, text: stringify(told), type: YAML } : { headers, json: told }
  }

  /** As they were written, with comments, unless that would tell a secret. */
  #text(reveal: boolean): string | undefined {
    const text = this.#sent?.generation === this.#generation ? this.#sent.text : this.#desk.options.rulesText?.()
    if (text === undefined || reveal) return text
    const rules = parsed(text)
    // Of what cannot be read nobody knows what it tells.
    return rules === undefined || hasSecrets(rules) ? undefined : text
  }

  /** What a put of these rules would find and change, and what they would have made of the requests of late. */
  async check(call: Call): Promise<Reply> {
    const text = await this.#body(call)
    const generation = this.#generation
    try {
      const loaded = this.#parse(call, text)
      return { json: { ok: true, generation, ...(await this.#inTurn(() => this.#preview(loaded))) } }
    } catch (error) {
      if (!(error instanceof RulesError)) throw error
      return { json: { ok: false, generation, problems: error.problems } }
    }
  }

  async #preview({ rules, warnings }: Pick<Loaded, 'rules' | 'warnings'>): Promise<object> {
    const { service, recent } = this.#desk
    const now = service.rules.rules
    return {
      warnings,
      needsRestart: needsRestart(now, rules),
      changes: withoutSecrets(changesOf(now.limits, rules.limits)),
      wouldHave: (await wouldHave(now, rules, service.modes, recent)) ?? null,
    }
  }

  async #body(call: Call): Promise<string> {
    const text = await readText(call.req, types, MOST_BYTES)
    if (text.includes(MASKED))
      throw new AdminError('bad_body', `The rules have ${MASKED} in place of a secret: GET them with ?reveal=true.`)
    return text
  }

  #parse({ req }: Call, text: string): Loaded {
    const name = /json/.test(req.headers['content-type'] ?? '') ? 'rules.json' : 'rules.yaml'
    return parseRules(text, name, this.#desk.options.environment)
  }

  async put(call: Call): Promise<Reply> {
    const text = await this.#body(call)
    const { rules, warnings } = this.#parse(call, text)
    return this.#inTurn(async () => {
      const before = this.#generation
      const expected = expectedOf(call)
      if (expected !== undefined && expected !== before) throw conflict(before)
      const restart = needsRestart(this.#desk.service.rules.rules, rules)
      await this.#apply({ rules, text, origin: call.who, expected })
      const generation = this.#generation
      this.#sent = { text, generation }
      this.#desk.audit.record(call, 'rules', { before: { generation: before }, after: { generation } })
      return { headers: { ETag: `"${generation}"` }, json: { generation, warnings, needsRestart: restart } }
    })
  }

  /** Between what a change was checked against and its effect no other change may come. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(change)
    this.#turn = result.catch(() => {})
    return result
  }

  async #apply(change: RulesChange): Promise<void> {
    const { service, options } = this.#desk
    if (options.putRules !== undefined) await options.putRules(change)
    else service.replace(change.rules, change.origin)
  }

  async reload(call: Call): Promise<Reply> {
    const { reload } = this.#desk.options
    if (reload === undefined) throw new AdminError('no_rules_file', 'The service was started without a rules file.')
    return this.#inTurn(async () => {
      const before = { generation: this.#generation }
      await reload()
      const after = { generation: this.#generation }
      this.#desk.audit.record(call, 'reload', { before, after })
      return { json: after }
    })
  }
}

function parsed(text: string): Rules | undefined {
  try {
    return parseRules(text).rules
  } catch {
    return undefined // files may say more than what is sent may
  }
}

/** `If-Match: "7"`; with none, or `*`, whatever holds is replaced. */
function expectedOf({ req }: Call): number | undefined {
  const header = req.headers['if-match']?.trim()
  if (header === undefined || header === '*') return undefined
  const [, digits] = /^"(\d{1,15})"$/.exec(header) ?? []
  return digits === undefined ? Number.NaN : Number(digits)
}

function conflict(generation: number): AdminError {
  const detail = `Generation ${generation} is in force: get it, make the change again, and send If-Match: "${generation}".`
  return new AdminError('generation_conflict', detail, { generation })
}

/** What was built from the rules when the service started stays as it is. */
function needsRestart(before: Rules, after: Rules): string[] {
  const fixed = (['store', 'server'] as const).filter(
    (part) => JSON.stringify(before[part]) !== JSON.stringify(after[part]),
  )
  const isOtherGateway = (before.upstream.length === 0) !== (after.upstream.length === 0)
  return [...fixed, ...(isOtherGateway ? ['upstream'] : [])]
}
