// What is done at the admin port of a running service: an exception for one customer, and the day on which a new limit holds.

/** Where the port is, and what HEADGATE_ADMIN_TOKEN says. */
export interface Admin {
  readonly url: string
  readonly token: string
}

const ask = ({ url, token }: Admin, method: string, path: string, body: object) =>
  fetch(`${url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

export async function exception(admin: Admin): Promise<void> {
  const forMs = 14 * 24 * 3_600_000
  const reason = 'moves its data in, ticket 4711'
  await ask(admin, 'POST', '/overrides', {
    limit: 'month',
    key: 'key-of-bob',
    to: '5000/month calendar Europe/Berlin',
    forMs,
    reason,
  })
}

export async function enforce(admin: Admin): Promise<void> {
  await ask(admin, 'PUT', '/limits/exports/mode', { mode: 'enforce' }) // or { enforcePercent: 10 } first
}
