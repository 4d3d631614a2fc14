// A service that keeps files: each caller may send 10 MB and fetch 50 MB a day.
// #region uploads
import { createServer } from 'node:http'
import { headgate } from 'headgate/node'

const limited = headgate({
  limits: {
    requests: { limit: '100/min', by: 'api-key' },
    uploads: { limit: '10_000_000/day', by: 'api-key', cost: 'bytes-in' },
    downloads: { limit: '50_000_000/day', by: 'api-key', cost: 'bytes-out' },
  },
})
// #endregion

// #region server
const files = new Map<string, Buffer>()

export const server = createServer(async (req, res) => {
  if (!(await limited(req, res))) return
  const name = req.url ?? '/'
  if (req.method !== 'PUT') {
    const file = files.get(name)
    return file === undefined ? res.writeHead(404).end() : res.end(file)
  }
  try {
    const pieces: Buffer[] = []
    for await (const piece of req) pieces.push(piece)
    files.set(name, Buffer.concat(pieces))
    res.writeHead(201).end('kept\n')
  } catch {
    // The client has gone, or its upload was cut off: nothing is kept, and the answer is sent.
  }
})
// #endregion

if (process.argv[1] === import.meta.filename) server.listen(3000)
