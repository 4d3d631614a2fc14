// #region quick-start
import { headgate } from 'headgate/koa'
import Koa from 'koa'

export const app = new Koa()
app.use(headgate({ limit: '100/min' })) // per client address
// #endregion

// #region at-once
const uploads = headgate({
  limits: { uploads: { atOnce: 2, when: (ctx) => ctx.method === 'PUT' } }, // all callers share the two places
})

app.use(uploads)
app.use(async (ctx) => {
  if (ctx.method !== 'PUT') {
    ctx.body = 'hello\n'
    return
  }
  let bytes = 0
  for await (const chunk of ctx.req) bytes += chunk.length
  ctx.body = { bytes }
})
// #endregion

if (process.argv[1] === import.meta.filename) app.listen(3000)
