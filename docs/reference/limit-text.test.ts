import { createGate } from 'headgate'
import { describe, expect, test } from 'vitest'
import { read } from '../fresh.ts'

const page = read('docs/reference/limit-text.md')

/** Cells of all rows of a section, without the marks of code and links. */
function rows(heading: string): string[][] {
  const section = page.split(/^#+ /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('| `'))
  return lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.replaceAll(/[`[\]]|\(.*?\)/g, '').trim()),
  )
}

function stateOf(text: string) {
  return createGate({ limit: text }).peek('key').limits[0]
}

describe('a limit reads as the page says', () => {
  test.each(rows('Limit text'))('%s: %s at once, full again after %s', (text, atOnce, fullAfter) => {
    const state = stateOf(text as string)
    expect(state?.limit).toBe(Number(atOnce))
    if (fullAfter?.endsWith(' ms')) expect(`${state?.windowMs} ms`).toBe(fullAfter)
  })
})

describe('a unit is as long as the page says', () => {
  const units = rows('Units').flatMap(([unit, also, is]) =>
    [unit, ...(also ? also.split(', ') : [])].map((name) => [name, is]),
  )
  test.each(units)('%s is %s', (name, is) => {
    expect(`${stateOf(`10/${name}`)?.windowMs} ms`).toBe(is)
  })
})

describe('a wrong text gets the code that the page says', () => {
  test.each(rows('Errors'))('%s: %s', (text, code) => {
    expect(() => stateOf(text as string)).toThrow(expect.objectContaining({ code }))
  })
})
