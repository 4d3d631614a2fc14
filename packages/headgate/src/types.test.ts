import { expect, test } from 'vitest'
import { createGate, type Decision, memory, type Store } from './index.ts'

interface Req {
  readonly key: string
  readonly ip: string
}

/** What is wrong here is wrong for the compiler; nothing of it runs. */
export function checkedByTheCompiler(store: Store, text: string): void {
  createGate({ limit: '1_000/day calendar Europe/Berlin' })
  createGate({ limit: `${5}/min` })
  createGate({ limit: { limit: 5, per: '10s', burst: 10 } })
  createGate({ limit: { per: '10/s', free: '5/s' }, tier: (plan: string) => plan, by: () => 'a' })
  // @ts-expect-error no such period
  createGate({ limit: '100/fortnight' })
  // @ts-expect-error no count
  createGate({ limit: 'lots/min' })
  // @ts-expect-error no such word
  createGate({ limit: '100/min bursts 5' })
  // @ts-expect-error no such algorithm
  createGate({ limit: '1/s', algorithm: 'leaky' })
  // @ts-expect-error one or the other
  createGate({ limit: '1/s', limits: { a: { limit: '1/s' } } })
  // A text that is known only at run time is checked there.
  createGate({ limit: text })

  const one = createGate({ limit: '1/s' })
  const now: Decision = one.take('a')
  one.block('a', 5)
  // @ts-expect-error a gate with one limit leaves the name out
  one.block('default', 'a', 5)

  const many = createGate({
    limits: { key: { limit: '1/s', by: (r: Req) => r.key }, ip: { limit: '2/s', by: (r) => r.ip } },
  })
  many.take({ key: 'a', ip: 'b' })
  many.block('ip', '1.2.3.4', 5)
  // @ts-expect-error no such limit
  many.block('ipp', '1.2.3.4', 5)
  // @ts-expect-error not a request
  many.take({ key: 'a' })

  const slow = createGate({ limit: '1/s', store })
  const later: Promise<Decision<Promise<void>>> = slow.take('a')
  // @ts-expect-error a store that takes time answers with a promise
  slow.take('a').ok
  const soon: Decision = createGate({ limit: '1/s', store: memory() }).take('a')
  void [now, later, soon]
}

test('types are checked by the compiler', () => {
  expect(checkedByTheCompiler).toBeTypeOf('function')
})
