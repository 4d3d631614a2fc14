// A new limit for a thousand callers who are all over it: first it only watches, then it holds for more and more of them.
import { createGate } from 'headgate'

const callers = Array.from({ length: 1000 }, (_, i) => `caller-${i}`)
for (const enforcePercent of [0, 10, 50, 100]) {
  const gate = createGate({ limits: { 'per-user': { limit: '1/min', by: (user: string) => user, enforcePercent } } })
  let [refused, over] = [0, 0]
  for (const caller of callers) {
    gate.take(caller)
    const { ok, limits } = gate.take(caller)
    if (!ok) refused++
    if (!limits[0]?.ok) over++
  }
  console.log(`enforced for ${enforcePercent} %: ${over} over the limit, ${refused} of them refused`)
}
