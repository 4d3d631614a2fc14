// The contract of Shopify's REST API: a bucket of 40 calls that leaks two a second.
import type { GateOptions } from 'headgate'
import { headgate } from 'headgate/fetch'

export function rest(counting: GateOptions = {}) {
  const limit = headgate({
    limit: '2/s burst 40',
    algorithm: 'leaky-bucket',
    by: 'header:x-shopify-access-token', // one for each app in each shop
    headers: ({ limit, remaining }) => ({ 'X-Shopify-Shop-Api-Call-Limit': `${limit - remaining}/${limit}` }),
    message: { errors: 'Too many calls at once: two a second go on for ever.' },
    ...counting,
  })
  return limit(async () => Response.json({ products: [] }))
}
