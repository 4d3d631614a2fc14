import { readFileSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { HeadgateError } from 'headgate'
import type { Source } from './document.ts'
import { compileGraphql, SchemaFault } from './graphql-library.ts'
import { type GraphqlRules, isSchemaText } from './graphql-schema.ts'
import { type Finding, type Path, type Problem, problemAt } from './problem.ts'
import type { Rules } from './schema.ts'

/** Rules with the text of the schema in place of its name. */
export interface Read {
  readonly rules: Rules
  readonly problems: readonly Problem[]
  /** That was read. */
  readonly file?: string
}

type Fault = Pick<Finding, 'code' | 'reason' | 'suggestion'>

const SCHEMA: Path = ['graphql', 'schema']
/** The largest ones in public have two. */
const MOST_BYTES = 10 * 1_048_576

/** Looks whether costs of GraphQL can be worked out. @param mayRead whether the rules may name a file */
export function withSchema(rules: Rules, main: Source, homeOf: (path: Path) => Source, mayRead: boolean): Read {
  const { graphql } = rules
  if (graphql === undefined)
    return { rules, problems: missing(rules).map((each) => problemAt(homeOf(each.path).position(each), each)) }
  const at = (path: Path, fault: Fault) => [problemAt(main.position({ path }), { ...fault, path })]
  if (isSchemaText(graphql.schema)) return { rules, problems: faultsOf(graphql, at) }
  const file = resolve(dirname(main.file), graphql.schema)
  const text = mayRead ? textOf(file) : ONLY_FILES
  if (typeof text !== 'string') return { rules, problems: at(SCHEMA, text) }
  const whole = { ...graphql, schema: text }
  return { rules: { ...rules, graphql: whole }, problems: faultsOf(whole, at, file), file }
}

function missing({ limits }: Rules): Finding[] {
  return Object.entries(limits).flatMap(([name, { cost }]): Finding[] =>
    cost !== 'graphql'
      ? []
      : [
          {
            code: 'HG_RULES_MISSING',
            path: ['limits', name, 'cost'],
            reason: 'nothing says what fields of GraphQL cost',
            suggestion: 'give graphql: { schema: schema.graphql }',
          },
        ],
  )
}

const ONLY_FILES: Fault = {
  code: 'HG_RULES_INCLUDE',
  reason: 'only rules in a file can name a file',
  suggestion: 'put the schema here',
}

function textOf(file: string): string | Fault {
  const fault = (reason: string) => ({
    code: 'HG_RULES_FILE' as const,
    reason,
    suggestion: 'name a file in the schema language of GraphQL, from where this file is',
  })
  try {
    const stat = statSync(file)
    if (!stat.isFile()) return fault(`${file} is no file`)
    if (stat.size > MOST_BYTES) return fault(`${file} has more than 10 MiB`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    return fault(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? error})`)
  }
}

function faultsOf(graphql: GraphqlRules, at: (path: Path, fault: Fault) => Problem[], file?: string): Problem[] {
  const code = 'HG_RULES_GRAPHQL'
  try {
    compileGraphql(graphql)
    return []
  } catch (error) {
    if (error instanceof HeadgateError) return at(...inWords(error))
    const { message: reason, line, column } = error as SchemaFault
    if (!(error instanceof SchemaFault)) return at(SCHEMA, { code, reason, suggestion: 'mend the schema' })
    if (file === undefined)
      return at(SCHEMA, { code, reason: `${reason}, in line ${line} of it`, suggestion: 'mend the schema' })
    return [problemAt({ file, line, column }, { code, path: [], reason, suggestion: 'mend the schema' })]
  }
}

/** What the library says of weights and directives: `HG_…: what is wrong: what to do. docs/…` */
function inWords({ message }: HeadgateError): [Path, Fault] {
  const text = message.replace(/^\w+: /, '').replace(/\.? docs\/\S+$/, '')
  const cut = Math.max(text.lastIndexOf(': '), text.lastIndexOf('; '))
  const [reason, suggestion] = cut < 0 ? [text, 'mend the schema'] : [text.slice(0, cut), text.slice(cut + 2)]
  return [
    text.includes('"weights"') ? ['graphql', 'weights'] : SCHEMA,
    { code: 'HG_RULES_GRAPHQL', reason, suggestion },
  ]
}
