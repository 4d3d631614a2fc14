// #region route
// app/api/search/route.ts of a Next app
import { headgate } from 'headgate/fetch'

const limit = headgate({
  limit: '3/min',
  trustProxy: 1, // Next tells a handler no address; the proxy in front of it does
})

export const GET = limit(async (request: Request) => {
  const query = new URL(request.url).searchParams.get('q')
  return Response.json({ query, results: [] })
})
// #endregion
