import { Document, isMap } from 'yaml'
import { bySchema } from '../config/identify-schema.ts'
import { parseRules } from '../config/load.ts'
import { formatProblem, type Problem, RulesError } from '../config/problem.ts'
import { readEnvoyFiles } from '../envoy/config.ts'
import { type ImportedRules, importEnvoy } from '../envoy/import.ts'
import type { Terminal } from './index.ts'
import { Misuse } from './misuse.ts'
import { json, plain } from './text.ts'

interface Options {
  /** `key=word` each. */
  readonly map: readonly string[]
  readonly json?: boolean
}

/** Prints rules on standard output and what there is to say of them on standard error. Exit code 1 if a file is broken. */
export function importCommand(
  from: string,
  files: readonly string[],
  options: Options,
  { out, err }: Terminal,
): number {
  if (from !== 'envoy') throw new Misuse(`nothing is known of files of "${from}": give envoy.`)
  const twice = files.find((file, i) => files.indexOf(file) !== i)
  if (twice !== undefined) throw new Misuse(`${twice} is given twice.`)
  const map = mapOf(options.map)
  const { rules, problems } = read(files, map)
  const text = rules && textOf(rules, problems, files)
  const ok = text !== undefined
  if (options.json) out.write(json({ ok, limits: Object.keys(rules?.limits ?? {}), rules: text ?? null, problems }))
  else {
    for (const problem of problems) err.write(`${plain(formatProblem(problem))}\n`)
    if (ok) out.write(text)
  }
  return ok ? 0 : 1
}

function mapOf(pairs: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    pairs.map((pair) => {
      const [, key, word = ''] = /^(.+?)=(.+)$/.exec(pair) ?? []
      if (key === undefined) throw new Misuse(`--map is "${pair}": give key=word, such as user_id=header:x-user-id.`)
      if (!bySchema.safeParse(word).success)
        throw new Misuse(
          `--map is "${pair}": nobody can be counted by "${word}"; give a word of "by", such as user or header:x-user-id.`,
        )
      return [key, word] as const
    }),
  )
}

function read(
  files: readonly string[],
  map: ReadonlyMap<string, string>,
): { rules?: ImportedRules; problems: readonly Problem[] } {
  try {
    return importEnvoy(readEnvoyFiles(files), map)
  } catch (error) {
    if (error instanceof RulesError) return { problems: error.problems }
    throw error
  }
}

function textOf(rules: ImportedRules, problems: readonly Problem[], files: readonly string[]): string {
  const head = [
    `Limits of ${files.join(', ')}, as far as rules can say them.`,
    'They hold for every request that has what they ask for; in Envoy its routes say which descriptors a request has.',
    ...(rules.identify
      ? ['identify.trustedProxies says who may tell for whom it speaks, as xff_num_trusted_hops does in Envoy.']
      : []),
  ]
  const lost = problems.filter(({ code }) => code === 'HG_RULES_NOT_IMPORTED').map(formatProblem)
  const tail = lost.length === 0 ? '' : `\n# Not carried over:\n${comments(lost)}`
  const text = `${comments(head)}${yamlOf(rules)}${tail}`
  parseRules(text) // what is printed can be used, or this is a mistake of ours
  return text
}

function comments(lines: readonly string[]): string {
  return lines.map((line) => `# ${plain(line)}\n`).join('')
}

/** A line for each limit. */
function yamlOf(rules: ImportedRules): string {
  const document = new Document(rules)
  const limits = document.get('limits')
  if (isMap(limits)) for (const { value } of limits.items) if (isMap(value)) value.flow = true
  return document.toString({ lineWidth: 0 })
}
