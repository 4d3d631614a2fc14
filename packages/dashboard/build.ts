// Bundles the dashboard into the server package, which serves it: `tsx packages/dashboard/build.ts`. From the sources, of the library
// too, so that it is never older than they are.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type BuildOptions, build } from 'esbuild'

const here = fileURLToPath(new URL('.', import.meta.url))
const library = join(here, '..', 'headgate', 'src')
export const FOLDER = join(here, '..', 'server', 'dist', 'dashboard')

const common: BuildOptions = {
  bundle: true,
  write: false,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  logLevel: 'error',
  alias: { headgate: join(library, 'index.ts'), 'headgate/testing': join(library, 'testing', 'index.ts') },
}

/** Writes all files, those that are the same already aside, and drops what was there before. Returns their names. */
export async function buildDashboard(folder = FOLDER): Promise<readonly string[]> {
  const files = new Map<string, string>()
  const add = (name: string, extension: string, text: string) => {
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 12)
    const file = `${name}-${hash}.${extension}`
    files.set(file, text)
    return `/assets/${file}`
  }
  const source = (name: string) => readFileSync(join(here, 'src', name), 'utf8')
  const worker = add('chaos', 'js', await bundle('chaos/worker.ts'))
  const script = add('dashboard', 'js', await bundle('main.tsx', { CHAOS_WORKER: JSON.stringify(worker) }))
  const style = add('dashboard', 'css', await bundle('style.css'))
  const icon = add('icon', 'svg', source('icon.svg'))
  const page = source('index.html').replace('{script}', script).replace('{style}', style).replace('{icon}', icon)
  files.set('licenses.txt', `The dashboard contains Preact.\n\n${licenseOf('preact')}`)
  files.set('index.html', page)
  write(folder, files)
  return [...files.keys()]
}

async function bundle(file: string, define: Record<string, string> = {}): Promise<string> {
  const { outputFiles = [] } = await build({ ...common, define, entryPoints: [join(here, 'src', file)] })
  return outputFiles[0]?.text ?? ''
}

function licenseOf(name: string): string {
  return readFileSync(join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), 'LICENSE'), 'utf8')
}

function write(folder: string, files: ReadonlyMap<string, string>): void {
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of files) {
    const path = join(folder, name)
    if (existsSync(path) && readFileSync(path, 'utf8') === text) continue
    // Whoever reads it meanwhile finds all of it or nothing.
    writeFileSync(`${path}.${process.pid}`, text)
    renameSync(`${path}.${process.pid}`, path)
  }
  for (const name of readdirSync(folder)) if (!files.has(name)) rmSync(join(folder, name), { force: true })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDashboard()
