// Limits of about a hundred a minute at their worst: one request, and from 59 s on as many as pass, for a minute.
import { createGate } from 'headgate'
import { fakeClock } from 'headgate/testing'

const limits = {
  'a window from the first hit, as before': { limit: '100/min', algorithm: 'fixed-window', align: 'first-hit' },
  '100/min': { limit: '100/min' },
  '50/min burst 50': { limit: '50/min burst 50' },
  '100/min strict': { limit: '100/min strict' },
} as const

for (const [name, limit] of Object.entries(limits)) {
  const clock = fakeClock()
  const gate = createGate({ ...limit, clock })
  gate.take('caller')
  clock.advance(59_000)
  let passed = 0
  for (let ms = 0; ms < 60_000; ms += 100) {
    while (gate.take('caller').ok) passed++
    clock.advance(100)
  }
  console.log(`${name}: ${passed} in a minute`)
}
