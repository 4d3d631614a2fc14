import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { MOST_BYTES, type Reading, readSource, type Source } from './document.ts'
import { type Finding, type Problem, problemAt, type RulesCode, RulesError } from './problem.ts'
import { choose } from './suggest.ts'

const MOST_FILES = 1000

export interface Included {
  readonly sources: readonly Source[]
  /** Folders that were listed: a file more or less changes the rules. */
  readonly folders: readonly string[]
  readonly problems: readonly Problem[]
}

/** Reads a file of rules. Nothing but regular files: a pipe would be waited for. */
export function readRulesFile(path: string, reading?: Reading): Source {
  const fail = (code: RulesCode, reason: string, suggestion: string): never => {
    throw new RulesError([problemAt({ file: path, line: 1, column: 1 }, { code, path: [], reason, suggestion })])
  }
  let bytes = new Uint8Array()
  try {
    const stat = statSync(path)
    if (!stat.isFile()) return fail('HG_RULES_FILE', 'this is no file', 'name a YAML file')
    if (stat.size > MOST_BYTES)
      return fail('HG_RULES_TOO_LARGE', 'the file has more than 1 MiB', 'split it, and include the parts')
    bytes = readFileSync(path)
  } catch (error) {
    if (error instanceof RulesError) throw error
    fail('HG_RULES_FILE', `the file cannot be read (${codeOf(error)})`, 'look at its name and permissions')
  }
  return readSource(decode(bytes) ?? fail('HG_RULES_FILE', 'the file is not UTF-8', 'save it as UTF-8'), path, reading)
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown }).code ?? error)
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Reads what a file includes: files, and the YAML files of folders in order of their names. */
export function readIncluded(main: Source): Included {
  const listed = (main.value as { include?: unknown }).include ?? []
  const names = (Array.isArray(listed) ? listed : [listed]).map(
    (name, i) => [name, Array.isArray(listed) ? [i] : []] as const,
  )
  const result = { sources: [] as Source[], folders: [] as string[], problems: [] as Problem[] }
  for (const [name, index] of names) {
    if (typeof name !== 'string' || name === '') continue // told by the schema
    const at = (fault: Pick<Finding, 'code' | 'reason' | 'suggestion'>) => {
      const path = ['include', ...index]
      result.problems.push(problemAt(main.position({ path }), { ...fault, path }))
    }
    for (const file of filesOf(resolve(dirname(main.file), name), result.folders, at)) {
      if (result.sources.length >= MOST_FILES) {
        at({
          code: 'HG_RULES_TOO_LARGE',
          reason: `more than ${MOST_FILES} files`,
          suggestion: 'put several limits into one file',
        })
        return result
      }
      readOne(file, result)
    }
  }
  return result
}

export function filesOf(
  path: string,
  folders: string[],
  at: (fault: Pick<Finding, 'code' | 'reason' | 'suggestion'>) => void,
): string[] {
  try {
    if (!statSync(path).isDirectory()) return [path]
    folders.push(path)
    // Hidden ones are what editors and Kubernetes keep beside the real ones.
    const names = readdirSync(path).filter((name) => /^[^.].*\.ya?ml$/.test(name))
    if (names.length === 0)
      at({
        code: 'HG_RULES_NO_EFFECT',
        reason: `${path} has no YAML files`,
        suggestion: 'put limits there, or leave it out',
      })
    return names.sort().map((name) => join(path, name))
  } catch (error) {
    at({
      code: 'HG_RULES_INCLUDE',
      reason: `${path} cannot be read (${codeOf(error)})`,
      suggestion: 'name a file or folder, from where this file is',
    })
    return []
  }
}

function readOne(file: string, { sources, problems }: { sources: Source[]; problems: Problem[] }): void {
  try {
    const source = readRulesFile(file)
    for (const key of Object.keys(source.value as object)) {
      if (key === 'limits') continue
      const finding = {
        path: [key],
        atKey: true,
        reason: 'an included file has limits and nothing else',
        suggestion: choose(key, ['limits']),
      }
      problems.push(problemAt(source.position(finding), { code: 'HG_RULES_INCLUDE', ...finding }))
    }
    sources.push(source)
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    problems.push(...error.problems)
  }
}
