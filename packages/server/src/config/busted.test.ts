import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { formatProblem, parseRules, RulesError } from './index.ts'

const folder = join(import.meta.dirname, 'testdata')
const files = readdirSync(folder).filter((name) => name.startsWith('busted_'))

/** All that is said of rules, a line each, without the name of the file. */
function complaints(text: string): string[] {
  try {
    parseRules(text, 'f')
    return []
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    return error.problems.map((problem) => formatProblem(problem).slice('f:'.length))
  }
}

describe('rules that cannot be used are refused with line, column, reason and what to do', () => {
  test.each(files)('%s', (name) => {
    const text = readFileSync(join(folder, name), 'utf8')
    // What is expected stands at the top of each file.
    const expected = text.split('\n').filter((line) => line.startsWith('# expect '))
    expect(expected).not.toEqual([])
    expect(complaints(text).map((line) => `# expect ${line}`)).toEqual(expected)
  })
})
