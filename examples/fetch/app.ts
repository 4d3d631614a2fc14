// #region quick-start
import { headgate } from 'headgate/fetch'

const limit = headgate({ limit: '100/min' }) // per client address

export default {
  fetch: limit(async (request: Request) => {
    const { pathname } = new URL(request.url)
    return new Response(`hello from ${pathname}\n`)
  }),
}
// #endregion
