import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mutants, pathOf } from './mutants.ts'

test.each(mutants.map((mutant) => [mutant.name, mutant] as const))(
  'the mutant "%s" still fits the code',
  (_, mutant) => {
    expect(readFileSync(pathOf(mutant), 'utf8').split(mutant.from)).toHaveLength(2)
    for (const file of mutant.tests) expect(existsSync(pathOf({ ...mutant, file }))).toBe(true)
  },
)
