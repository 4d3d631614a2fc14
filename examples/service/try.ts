interface Where {
  readonly file: string
  readonly port: number
  readonly adminPort: number
  readonly token: string
  readonly adminToken: string
}

/** Commands to copy; `start.test.ts` runs them all. */
export function thingsToTry({ file, port, adminPort, token, adminToken }: Where): string {
  const [url, admin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`]
  const question = '{"request":{"path":"/export/1","ip":"203.0.113.7","headers":{"x-api-key":"bob"}}}'
  return `
Headgate is at ${url}, in front of a small upstream. Its rules: ${file}
Its dashboard, logged in by the link: ${admin}/#token=${adminToken}
In another terminal, try:

A request passes. Its headers say what is left
  curl -i ${url}/

The fourth export of one key in a minute is refused, and told when to come back
  curl -s -H 'X-Api-Key: ann' '${url}/export/[1-4]'

The sixth wrong password in a minute does not reach the upstream
  curl -s -X POST '${url}/login?password=wrong&try=[1-6]'

A key of a better plan has more: "plan" in RateLimit-Policy
  curl -i -H 'X-Api-Key: demo-pro' ${url}/api/hello

What is left, without spending
  curl -s -H 'X-Api-Key: ann' '${url}/rate_limit?path=/export/1'

Decisions without the gateway, for programs that have the token
  curl -s -H 'Authorization: Bearer ${token}' -d '${question}' ${url}/v1/take

The same limit for somebody who operates this
  curl -s -H 'Authorization: Bearer ${adminToken}' ${admin}/admin/v1/keys/exports/ann
  HEADGATE_ADMIN_TOKEN=${adminToken} npx headgate inspect exports ann --admin ${admin}
  curl -s ${admin}/metrics

Which limits a request meets, and why not the others
  npx headgate explain ${file} GET /export/1 -H 'X-Api-Key: ann'

Other rules: change 3/min to 30/min in ${file} and save it. They hold at once.

Ctrl-C ends it. More: docs/guides/service.md
`
}
