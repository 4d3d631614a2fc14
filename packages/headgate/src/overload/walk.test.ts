import fc from 'fast-check'
import { type Admitted, createOverload, type Priority, priorities, type Ticket } from 'headgate/overload'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { runs } from '../properties/support.ts'

const step = fc.oneof(
  fc.record({
    do: fc.constant('enter' as const),
    priority: fc.constantFrom(...priorities),
    caller: fc.constantFrom('a', 'b', 'c'),
    deadlineMs: fc.option(fc.integer({ min: -5, max: 300 }), { nil: undefined }),
    signal: fc.boolean(),
  }),
  fc.record({
    do: fc.constant('done' as const),
    which: fc.nat(),
    outcome: fc.constantFrom('success', 'ignore', 'drop'),
  }),
  fc.record({ do: fc.constant('abort' as const), which: fc.nat() }),
  fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 0, max: 120 }) }),
  fc.record({ do: fc.constant('limit' as const), value: fc.integer({ min: 1, max: 12 }) }),
  fc.record({ do: fc.constant('tune' as const), size: fc.integer({ min: 1, max: 8 }) }),
)

interface Entered {
  readonly priority: Priority
  readonly away: AbortController | undefined
  ends: ('admitted' | 'shed' | 'aborted')[]
  ticket: Admitted | undefined
}

test('whatever happens, each who enters gets one answer and slots neither leak nor are given twice', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 120 }), async (steps) => {
      const clock = fakeClock(1_000)
      const estimate = { value: 5, learn() {} }
      let sheds = 0
      const overload = createOverload({
        ...{ clock, concurrency: estimate, queue: { size: 6 }, utilisation: false },
        onShed: () => sheds++,
      })
      const all: Entered[] = []
      const atWork: Entered[] = []
      const hear = (one: Entered, ticket: Ticket) => {
        one.ends.push(ticket.ok ? 'admitted' : 'shed')
        if (!ticket.ok) {
          expect(ticket.retryAfterMs).toBeGreaterThan(0)
          return
        }
        one.ticket = ticket
        atWork.push(one)
        // Nobody is let in beyond the limit; it may shrink below what is at work already.
        expect(overload.state().inFlight).toBeLessThanOrEqual(Math.max(estimate.value, mostBefore))
      }
      let mostBefore = 0
      for (const each of steps) {
        mostBefore = overload.state().inFlight
        if (each.do === 'enter') {
          const away = each.signal ? new AbortController() : undefined
          const one: Entered = { priority: each.priority, away, ends: [], ticket: undefined }
          all.push(one)
          const { priority, caller, deadlineMs } = each
          const answer = overload.enter({
            priority,
            caller,
            ...(deadlineMs !== undefined && { deadlineMs }),
            ...(away && { signal: away.signal }),
          })
          if (answer instanceof Promise)
            answer.then(
              (ticket) => hear(one, ticket),
              () => one.ends.push('aborted'),
            )
          else hear(one, answer)
        } else if (each.do === 'done' && atWork.length > 0) {
          const [one] = atWork.splice(each.which % atWork.length, 1)
          one?.ticket?.done(each.outcome as 'success')
          one?.ticket?.done()
        } else if (each.do === 'abort' && all.length > 0) all[each.which % all.length]?.away?.abort('away')
        else if (each.do === 'advance') clock.advance(each.ms)
        else if (each.do === 'limit') estimate.value = each.value
        else if (each.do === 'tune') overload.tune({ queue: { size: each.size } })
        for (let i = 0; i < 4; i++) await undefined
        const { inFlight, queued } = overload.state()
        expect(inFlight).toBe(atWork.length)
        expect(queued).toBe(all.filter(({ ends }) => ends.length === 0).length)
        expect(queued).toBeLessThanOrEqual(6 + 2)
      }
      clock.advance(1_000)
      await new Promise((resolve) => setTimeout(resolve, 0))
      // Nobody waits for longer than the queue allows, and everybody got exactly one answer.
      expect(overload.state().queued).toBe(0)
      for (const { ends } of all) expect(ends).toHaveLength(1)
      expect(sheds).toBe(all.filter(({ ends }) => ends[0] === 'shed').length)
      for (const { ticket } of atWork) ticket?.done()
      expect(overload.state().inFlight).toBe(0)
    }),
    runs(200),
  )
})
