// #region quick-start
import { createServer } from 'node:http'
import { headgate } from 'headgate/node'

const limit = headgate({ limit: '100/min' }) // per client address

export const server = createServer(async (req, res) => {
  if (!(await limit(req, res))) return // it has been answered
  res.end('hello\n')
})
// #endregion

// #region settle
const fair = headgate({
  limit: '100/min',
  settle: ({ status }) => (status === 304 || status >= 500 ? 0 : undefined), // what was no work of the caller's is given back
})

export const fairServer = createServer(async (req, res) => {
  if (req.url === '/rate_limit') return fair.status(req, res)
  if (!(await fair(req, res))) return
  res.statusCode = req.url === '/broken' ? 500 : req.headers['if-none-match'] === '"1"' ? 304 : 200
  res.setHeader('ETag', '"1"')
  res.end(res.statusCode === 200 ? 'hello\n' : undefined)
})
// #endregion

if (process.argv[1] === import.meta.filename) server.listen(3000)
