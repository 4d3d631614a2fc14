import { type ErrorCode, HeadgateError } from 'headgate'
import { describe, expect, test } from 'vitest'
import { cases, errorOf } from './errors.cases.ts'
import { read } from './fresh.ts'

const codes = [...new Set(read('packages/headgate/src/errors.ts').match(/'HG_\w+'/g))].map((code) => code.slice(1, -1))
const sections = read('docs/errors.md')
  .split(/^## /m)
  .slice(1)
  .map((section) => ({ heading: section.slice(0, section.indexOf('\n')), section }))

test('docs/errors.md has a section for every code, in order, and no others', () => {
  expect(sections.map(({ heading }) => heading)).toEqual(codes)
})

describe.each(sections)('$heading', ({ heading, section }) => {
  test('says what happened, why it is refused and how to mend it', () => {
    for (const part of ['**What happened.**', '**Why.**', '**Fix.**']) expect(section).toContain(part)
  })

  test('shows an example that really throws it, and its message', async () => {
    expect(section).toContain(`<!-- from docs/errors.cases.ts#${heading} -->`)
    expect(section).toContain(`<!-- message of ${heading} -->`)
    const error = await errorOf(heading as ErrorCode)
    expect(error).toBeInstanceOf(HeadgateError)
    expect(error).toMatchObject({ code: heading })
    expect((error as HeadgateError).message).toContain(`docs/errors.md#${heading.toLowerCase()}`)
  })
})

test('every code has an example', () => {
  expect(Object.keys(cases)).toEqual(codes)
})
