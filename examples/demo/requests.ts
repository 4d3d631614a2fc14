import { createGate } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { pause, title, verdict } from './screen.ts'

export async function severalLimits(): Promise<void> {
  await title(
    '2. Several limits, one decision',
    'what is left of each limit after each call: all are charged, or none is',
  )
  const gate = createGate({
    clock: fakeClock(Date.UTC(2026, 0, 1)),
    limits: {
      key: { limit: '100/s', by: ({ key }: { key: string; ip: string }) => key },
      ip: { limit: '3/s', by: ({ ip }) => ip },
      month: { limit: '1000/month calendar', by: ({ key }) => key },
      busy: { atOnce: 4, by: ({ key }) => key },
    },
  })
  console.log(`${' '.repeat(17)}   key 100/s   ip 3/s   month 1000   busy 4`)
  const calls = ['192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.1', '192.0.2.2', '192.0.2.2']
  for (const [index, ip] of calls.entries()) {
    const { ok, violated, limits } = gate.take({ key: 'k1', ip })
    const left = limits.map(({ remaining }, i) => String(remaining).padStart([12, 9, 13, 9][i] as number)).join('')
    console.log(`call ${index + 1}, ${ip}${left}   ${verdict(ok)}${violated.map((name) => ` by ${name}`).join(',')}`)
    await pause(160)
  }
}

export async function line(): Promise<void> {
  await title('4. A line of waiters', '5/s, one at a time: served in order, and who gives up leaves no hole')
  const clock = fakeClock()
  const gate = createGate({ limit: '5/s burst 1', clock })
  const say = (text: string) => console.log(`${String(clock.now()).padStart(5)} ms   ${text}`)
  const leaving = new AbortController()
  const waiting = ['Ann', 'Ben', 'Cem', 'Dee', 'Eli'].map((name) =>
    gate.wait('door', name === 'Cem' ? { signal: leaving.signal } : {}).then(
      () => say(`${name} is let in`),
      () => say(`${name} gives up`),
    ),
  )
  say(`five arrive; Fay, who cannot wait, is told ${gate.take('door').retryAfterMs} ms`)
  for (let step = 0; step < 32; step++) {
    await new Promise((done) => setImmediate(done)) // lets the ones who were called say so before time goes on
    await pause(40)
    clock.advance(25)
    if (clock.now() === 300) leaving.abort()
  }
  await Promise.all(waiting)
}
