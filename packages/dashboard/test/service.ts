import { type Instance, instance, rulesOf } from '../../server/test/service.ts'

export const WRITE = 'write-token-0123456789'
export const READ = 'read-token-0123456789'
export const tokens = { HEADGATE_ADMIN_TOKEN: WRITE, HEADGATE_ADMIN_READ_TOKEN: READ }

export const LIMITS = `  per-key: { limit: 5/min, by: [api-key] }
  watched: { limit: 2/min, by: [api-key], mode: observe }
  exports: { limit: 3/min, by: [api-key, route], when: { path: /export/** } }
  plan: { limit: { free: 5/min, pro: 50/min }, by: [api-key], when: { path: /plan } }`

/** A machine with much to do is no outage. */
export const MORE = 'timeoutMs: 10000\nidentify: { apiKey: header:x-api-key, tier: header:x-plan }'

export function service(limits = LIMITS, more = MORE, server = ''): Promise<Instance> {
  return instance(rulesOf(limits, more, server), tokens)
}

/** How many of so many requests pass. */
export async function take(url: string, key: string, times = 1, path = '/'): Promise<number> {
  const request = { path, ip: '203.0.113.7', headers: { 'x-api-key': key, 'x-plan': 'free' } }
  const body = JSON.stringify(Array.from({ length: times }, () => ({ request })))
  const response = await fetch(`${url}/v1/take`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  })
  const decisions = (await response.json()) as { ok: boolean }[]
  return decisions.filter(({ ok }) => ok).length
}

/** The admin port without a browser. */
// biome-ignore lint/suspicious/noExplicitAny: answers have every shape
export async function admin(adminUrl: string, method: string, path: string, init: RequestInit = {}): Promise<any> {
  const headers = {
    'content-type': 'application/json',
    ...(init.headers as Record<string, string>),
    authorization: `Bearer ${WRITE}`,
  }
  const response = await fetch(`${adminUrl}/admin/v1/${path}`, { ...init, method, headers })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : text
}
