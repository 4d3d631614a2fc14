// npx tsx examples/decisions/decisions.ts: asks a service for decisions, and shows questions and answers.
import { serve } from 'headgate-server'
import { pretty } from './pretty.ts'

export const service = await serve({ file: `${import.meta.dirname}/headgate.yaml` })

export async function byTheRules(): Promise<void> {
  await ask('/v1/take', { request: { path: '/export/1', ip: '203.0.113.7', headers: { 'x-api-key': 'bob' } }, cost: 3 })
  await ask('/v1/take', { request: { path: '/export/2', ip: '203.0.113.7', headers: { 'x-api-key': 'bob' } } })
}

export async function reserveAndSettle(): Promise<void> {
  const limits = { tokens: { limit: '1000/day', key: 'org-7' } }
  const { reservation } = await ask('/v1/take', { limits, cost: 400 })
  await ask('/v1/settle', { reservation, actual: 125 })
  await ask('/v1/settle', { reservation, actual: 125 })
  await ask('/v1/peek', { limits })
}

export async function inABatch(): Promise<void> {
  const sms = (key: string) => ({ limits: { sms: { limit: '1/day', key } } })
  await ask('/v1/take', [sms('+49 30 1234'), sms('+49 30 1234'), sms('')])
}

async function ask(path: string, body: object): Promise<{ reservation?: string }> {
  console.log(`POST ${path}\n${pretty(body)}`)
  const response = await fetch(`http://127.0.0.1:${service.port}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  })
  const answer = await response.json()
  console.log(`${response.status}\n${pretty(answer)}\n`)
  return answer as { reservation?: string }
}

if (process.argv[1] === import.meta.filename) {
  for (const show of [byTheRules, reserveAndSettle, inABatch]) await show()
  await service.stop()
}
