// Keeps what our pages show the same as what our tests run. `npm run docs` rewrites the pages that are stale.
//
//     <!-- from examples/quick-start/quick-start.ts -->        the block below is that file
//     <!-- from examples/several-limits/several-limits.ts#gate -->   ... or its part between `// #region gate` and `// #endregion`
//     <!-- message of HG_KEY_MISSING -->                       ... or what the case of that name in errors.cases.ts throws
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ErrorCode } from 'headgate'
import { errorOf } from './errors.cases.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const LANGUAGES: Record<string, string> = { ts: 'ts', txt: 'text', yaml: 'yaml', conf: 'nginx' }
const MARK = /^<!-- (?:from|message of) \S+ -->$/gm
const BLOCK = /<!-- (from|message of) (\S+) -->\n```.*\n(?:(?!```).*\n)*```\n/g
const REGION = /^\s*\/\/ #(?:region .*|endregion)$/

/** All pages that readers see, as paths from the root. */
export function pages(): string[] {
  const inFolder = (folder: string, recursive: boolean) =>
    readdirSync(join(root, folder), { recursive, encoding: 'utf8' }).map((name) => join(folder, name))
  const inEach = ['packages', 'examples'].flatMap((folder) => inFolder(folder, false))
  const readmes = inEach.map((name) => join(name, 'README.md'))
  const all = [...inFolder('.', false), ...inFolder('docs', true), ...readmes]
  return all.filter((path) => path.endsWith('.md') && existsSync(join(root, path))).sort()
}

export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** A page as it should be. */
export async function assemble(text: string): Promise<string> {
  const [open] = unclosed(text)
  if (open !== undefined) throw new Error(`what comes after "${open}" is no block that begins there and ends`)
  let page = ''
  let end = 0
  for (const { 0: block, 1: kind, 2: source = '', index } of text.matchAll(BLOCK)) {
    const [code, language] = kind === 'from' ? partOf(source) : [await messageOf(source), 'text']
    page += `${text.slice(end, index)}<!-- ${kind} ${source} -->\n\`\`\`${language}\n${code}\n\`\`\`\n`
    end = index + block.length
  }
  return page + text.slice(end)
}

/** Marks of a page that no whole block follows: it would be taken for text, and all up to the next fence for code. */
function unclosed(text: string): string[] {
  return text.replaceAll(BLOCK, '').match(MARK) ?? []
}

/** Code blocks of a page that come from nowhere, by their first lines. */
export function strayCode(text: string): string[] {
  const rest = text.replaceAll(BLOCK, '')
  return [...rest.matchAll(/```(?:ts|js|typescript|javascript|yaml|json|nginx)\n(.*)/g)].map(([, line = '']) => line)
}

function partOf(source: string): [code: string, language: string] {
  const [path = '', region] = source.split('#')
  const language = LANGUAGES[path.split('.').at(-1) ?? ''] ?? ''
  const lines = read(path).trimEnd().split('\n')
  if (region === undefined) return [lines.filter((line) => !REGION.test(line)).join('\n'), language]
  const start = lines.findIndex((line) => line.trim() === `// #region ${region}`)
  if (start < 0) throw new Error(`${path} has no region "${region}"`)
  const length = lines.slice(start + 1).findIndex((line) => line.trim() === '// #endregion')
  const part = lines.slice(start + 1, start + 1 + length)
  const indent = Math.min(...part.filter((line) => line !== '').map((line) => line.search(/\S/)))
  return [part.map((line) => line.slice(indent)).join('\n'), language]
}

async function messageOf(code: string): Promise<string> {
  const error = await errorOf(code as ErrorCode)
  // Wherever the project lies.
  return error instanceof Error ? error.message.replaceAll(root, '') : `${code}: nothing was thrown`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const page of pages()) {
    const [before, after] = [read(page), await assemble(read(page))]
    if (before === after) continue
    if (process.argv.includes('--write')) writeFileSync(join(root, page), after)
    else process.exitCode = 1
    console.log(`${page} ${process.argv.includes('--write') ? 'is rewritten' : 'is stale: npm run docs'}`)
  }
}
