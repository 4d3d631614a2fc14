/** Stands where a secret was. */
export const MASKED = '(masked)'

const names = ['password', 'sentinelPassword', 'hashKeys']

/** Rules without what would let somebody into the store. */
export function withoutSecrets(value: unknown, name?: string): unknown {
  if (typeof value === 'string') {
    if (name !== undefined && names.includes(name)) return MASKED
    return value.replace(/(:\/\/[^:/@]*):[^@/]*@/, `$1:${MASKED}@`)
  }
  if (Array.isArray(value)) return value.map((each) => withoutSecrets(each))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutSecrets(each, key)]))
}

export function hasSecrets(value: unknown): boolean {
  return JSON.stringify(withoutSecrets(value)) !== JSON.stringify(value)
}
