/** Prints a response as its caller sees it: status, fields that tell of limits, and the body of a refusal. */
export async function seen(what: string, response: Response): Promise<Response> {
  console.log(`${what}: ${response.status}`)
  for (const [name, value] of response.headers) if (TELLING.test(name)) console.log(`  ${name}: ${value}`)
  if (!response.ok) console.log(`  ${await response.clone().text()}`)
  return response
}

const TELLING = /rate-?limit|retry-after|call-limit|errortype/i

/** What so many calls came to, as { status: how many }. */
export async function tally(count: number, call: (i: number) => Promise<Response> | Response) {
  const statuses: Record<number, number> = {}
  for (let i = 0; i < count; i++) {
    const { status } = await call(i)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  return statuses
}
