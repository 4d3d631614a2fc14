/** Stands where a secret was. */
export const MASKED = '(masked)'

const names = ['password', 'sentinelPassword', 'hashKeys']

/** Rules without what would let somebody into the store. */
export function withoutSecrets(value: unknown, name?: string): unknown {
  if (typeof value === 'string') {
    if (name !== undefined && names.includes(name)) return MASKED
    return value.includes('://') ? maskUrl(value) : value
  }
  if (Array.isArray(value)) return value.map((each) => withoutSecrets(each))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutSecrets(each, key)]))
}

/** A password may hold an @, so it ends at the last one before the path; parameters are told by their names. */
function maskUrl(url: string): string {
  return url
    .replace(/(:\/\/[^:/?#@]*):[^/?#]*@/, `$1:${MASKED}@`)
    .replace(/([?&][^=&]*(?:pass|token|secret|key|auth)[^=&]*=)(?!\{)[^&#]*/gi, `$1${MASKED}`)
}

export function hasSecrets(value: unknown): boolean {
  return JSON.stringify(withoutSecrets(value)) !== JSON.stringify(value)
}
