// #region bulk
import express, { type Request } from 'express'
import { headgate } from 'headgate/express'

const items = (req: Request) => (Array.isArray(req.body?.items) ? req.body.items.length : 1)

export const app = express()
app.use(express.json()) // in front: the cost is in the body
app.post('/orders', headgate({ limit: '100/min', by: 'api-key', cost: items }), (req, res) => {
  res.status(201).json({ made: items(req) })
})
// #endregion

if (process.argv[1] === import.meta.filename) app.listen(3000)
