// #region quick-start
import express from 'express'
import { headgate } from 'headgate/express'

export const app = express()
app.use(headgate({ limit: '100/min' })) // per client address
// #endregion

// #region login
const failed = ({ status }: { status: number }) => status === 401

const guesses = headgate({
  limits: {
    account: { limit: '5/15min', by: (req) => req.body?.account, countWhen: failed },
    address: { limit: '20/15min', by: 'ip', countWhen: failed },
    trying: { atOnce: 2, by: (req) => req.body?.account }, // so that many guesses at once are no way around
  },
})

app.post('/login', express.json(), guesses, async (req, res) => {
  if (await passwordIsRight(req.body)) res.json({ welcome: req.body.account })
  else res.status(401).json({ error: 'wrong account or password' })
})
// #endregion

/** Stands for a slow hash. */
async function passwordIsRight({ password }: { password?: string }): Promise<boolean> {
  await new Promise((resolve) => setImmediate(resolve))
  return password === 'open sesame'
}

app.get('/', (_req, res) => {
  res.send('hello\n')
})

if (process.argv[1] === import.meta.filename) app.listen(3000)
