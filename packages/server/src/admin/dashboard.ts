import { readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

/** Where the dashboard is built to, seen from the sources as from what is built of them. */
const FOLDER = fileURLToPath(new URL('../../dist/dashboard/', import.meta.url))

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

/** Scripts and styles are files of ours and nothing else; nobody may frame the page or be told where it was. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types headgate',
].join('; ')

const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'X-Frame-Options': 'DENY',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

interface File {
  readonly type: string
  readonly body: Buffer
  readonly packed: Buffer
  /** Names of assets have a hash of what is in them, so they never change. */
  readonly cache: string
}

/** The files of the dashboard, which are open: what they show has to be asked for with a token. All are read at the start, so a path
 *  finds one of them or nothing. */
export function dashboard(folder = FOLDER): (req: IncomingMessage, res: ServerResponse) => void {
  const files = filesIn(folder)
  return (req, res) => {
    const [path = '/'] = (req.url ?? '/').split('?')
    const file = files.get(path)
    if (file === undefined) return refuse(res, 404, path === '/' ? NOT_BUILT : 'There is nothing at this path.\n')
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.setHeader('Allow', 'GET, HEAD')
      return refuse(res, 405, 'This takes GET and HEAD.\n')
    }
    send(req, res, file)
  }
}

const NOT_BUILT = 'The dashboard is not built: npm run build.\n'

function filesIn(folder: string): ReadonlyMap<string, File> {
  const names = list(folder)
  return new Map(
    names.flatMap((name): [string, File][] => {
      const type = TYPES[name.split('.').at(-1) ?? '']
      if (type === undefined) return []
      const body = readFileSync(`${folder}${name}`)
      const isPage = name === 'index.html'
      const cache = isPage ? 'no-cache' : 'public, max-age=31536000, immutable'
      return [[isPage ? '/' : `/assets/${name}`, { type, body, packed: gzipSync(body), cache }]]
    }),
  )
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function send(req: IncomingMessage, res: ServerResponse, { type, body, packed, cache }: File): void {
  const isPacked = /\bgzip\b/.test(String(req.headers['accept-encoding'] ?? ''))
  const bytes = isPacked ? packed : body
  res.writeHead(200, {
    ...HEADERS,
    'Content-Type': type,
    'Content-Length': bytes.length,
    'Cache-Control': cache,
    Vary: 'Accept-Encoding',
    ...(isPacked && { 'Content-Encoding': 'gzip' }),
  })
  res.end(req.method === 'HEAD' ? undefined : bytes)
}

function refuse(res: ServerResponse, status: number, text: string): void {
  res.writeHead(status, { ...HEADERS, 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' })
  res.end(text)
}
