// The contract of Shopify's REST API: a bucket of 40 calls that leaks two a second.
import { headgate } from 'headgate/fetch'
import type { Counting } from '../counting.ts'

// #region rest
export function rest(counting: Counting = {}) {
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
// #endregion
