/** What an address like `#token=…` carries: fragments are not sent to servers, so a link may bring a token along. */
export function tokenIn(hash: string): string | undefined {
  const [, token] = /^#token=([^&]+)$/.exec(hash) ?? []
  if (token === undefined) return undefined
  try {
    return decodeURIComponent(token)
  } catch {
    return undefined
  }
}
