import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { assemble, pages, read, strayCode } from './fresh.ts'

const root = join(import.meta.dirname, '..')

/** As GitHub names the anchor of a heading. */
function anchors(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

function links(page: string): string[] {
  const text = read(page).replaceAll(/```[\s\S]*?```/g, '')
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link).filter((link) => !/^[a-z]+:/.test(link))
}

describe.each(pages())('%s', (page) => {
  test('shows code and output as they are in the files that tests run (npm run docs)', async () => {
    expect(read(page)).toBe(await assemble(read(page)))
  })

  test('shows no code that tests do not run', () => {
    expect(strayCode(read(page))).toEqual([])
  })

  test('ends each block of code that it begins', () => {
    const fences = read(page).match(/^ *```.*$/gm) ?? []
    expect(fences.filter((fence, i) => i % 2 === 1 && fence.trim() !== '```')).toEqual([])
    expect(fences.length % 2).toBe(0)
  })

  test('links to pages and headings that exist', () => {
    for (const link of links(page)) {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? page : join(dirname(page), path)
      expect(existsSync(join(root, target)), `${link} in ${page}`).toBe(true)
      if (anchor !== undefined) expect(anchors(target), `${link} in ${page}`).toContain(anchor)
    }
  })
})

const recipes = pages().filter((page) => page.startsWith(join('docs', 'recipes')))

test.each(recipes)('the code of %s can be copied: it is whole, and imports nothing but packages', (page) => {
  for (const [, source = ''] of read(page).matchAll(/<!-- from (\S+\.ts\S*) -->/g)) {
    expect(source).not.toContain('#')
    expect(read(source)).not.toMatch(/from '\./)
  }
})

test('a page whose code was edited by hand is noticed and mended', async () => {
  const fence = '```'
  const page = (code: string) =>
    `Text\n\n<!-- from examples/testing/slow-store.test.ts#suite -->\n${fence}ts\n${code}${fence}\n\nMore\n`
  const mended = await assemble(page('edited by hand\n'))
  expect(mended).toContain("describe('the slow store'")
  expect(mended).toMatch(/^Text\n[\s\S]*\nMore\n$/)
  expect(await assemble(page(''))).toBe(mended)
  expect(await assemble(mended)).toBe(mended)
})

test('a block that does not end is refused: what follows it would be shown as code', async () => {
  const mark = '<!-- message of HG_KEY_MISSING -->'
  await expect(assemble(`${mark}\n\`\`\`text\n\n## HG_NEXT\n`)).rejects.toThrow(`after "${mark}"`)
  await expect(assemble(`${mark}\n\nText\n`)).rejects.toThrow(`after "${mark}"`)
})
