import type * as z from 'zod'
import { findingsOf, valueAt } from './issues.ts'
import type { Finding, Problem } from './problem.ts'
import { rulesSchema } from './schema.ts'
import { storePlaces } from './store-schema.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const { store, upstream, server } = rulesSchema.shape
const { port, grpcPort, adminPort } = server.unwrap().shape

const STORE = 'HEADGATE_STORE'

interface Variable {
  readonly name: string
  readonly path: readonly [string] | readonly [string, string]
  readonly schema: z.ZodType
}

const variables: readonly Variable[] = [
  { name: STORE, path: ['store'], schema: store },
  { name: 'HEADGATE_UPSTREAM', path: ['upstream'], schema: upstream },
  { name: 'HEADGATE_PORT', path: ['server', 'port'], schema: port },
  { name: 'HEADGATE_GRPC_PORT', path: ['server', 'grpcPort'], schema: grpcPort },
  { name: 'HEADGATE_ADMIN_PORT', path: ['server', 'adminPort'], schema: adminPort },
]

type Rules = Readonly<Record<string, unknown>>

/** Puts what variables say into rules. An empty one says nothing, as it cannot be unset everywhere. */
export function withEnvironment(rules: Rules, environment: Environment): { rules: Rules; problems: Problem[] } {
  const problems: Problem[] = []
  let result = rules
  for (const variable of variables) {
    const text = environment[variable.name]
    if (text === undefined || text === '') continue
    const isPort = variable.path.length === 2
    const value = isPort && /^\d+$/.test(text) ? Number(text) : text
    const { error } = variable.schema.safeParse(value)
    if (error === undefined)
      result = put(result, variable.path, variable.name === STORE ? thereInstead(result, value) : value)
    else problems.push(problemOf(variable, text, findingsOf(error.issues, value)[0]))
  }
  return { rules: result, problems }
}

/** The variable says where Redis is and, if it likes, as whom to come. All else that the rules say of it holds there too. */
function thereInstead({ store }: Rules, value: unknown): unknown {
  const redis = valueAt(store, ['redis'])
  if (value === 'memory' || typeof redis !== 'object' || redis === null) return value
  const { username, password, pathname } = new URL(value as string)
  const said: readonly string[] = [
    ...storePlaces,
    ...(username || password ? ['username', 'password'] : []),
    ...(pathname.length > 1 ? ['db'] : []),
  ]
  const kept = Object.entries(redis).filter(([name]) => !said.includes(name))
  return { redis: { ...Object.fromEntries(kept), url: value } }
}

function put(rules: Rules, [first, second]: Variable['path'], value: unknown): Rules {
  if (second === undefined) return { ...rules, [first]: value }
  const inner = rules[first] ?? {}
  // Anything else is a mistake that is told where it stands.
  return typeof inner === 'object' && !Array.isArray(inner)
    ? { ...rules, [first]: { ...inner, [second]: value } }
    : rules
}

function problemOf({ name, path }: Variable, text: string, finding: Finding | undefined): Problem {
  // Kubernetes tells every pod of a Service "headgate" in this way where it is.
  const isLink = path.length === 2 && /^(tcp|udp):\/\//.test(text)
  return {
    file: `$${name}`,
    line: 1,
    column: 1,
    severity: isLink ? 'warning' : 'error',
    code: 'HG_RULES_ENV',
    path: path.join('.'),
    reason: isLink ? `"${text}" was set by Kubernetes and is not read` : (finding?.reason ?? 'this cannot be used'),
    suggestion: isLink ? 'set enableServiceLinks: false, or the variable' : (finding?.suggestion ?? 'unset it'),
  }
}
