import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { AtOnce } from './at-once.ts'

/** Move the clock (also back), take for the long or the short time, or renew or release one of those taken so far. */
const step = fc.oneof(
  fc.record({ verb: fc.constant('move' as const), us: fc.integer({ min: -20, max: 60 }) }),
  fc.record({ verb: fc.constant('take' as const), long: fc.boolean(), cost: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ verb: fc.constantFrom('release' as const, 'renew' as const), which: fc.nat(100) }),
)

test('agrees with a plain list of slots, whatever their hold times, renewals and the order of release', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const [long, short] = [new AtOnce(10, 200), new AtOnce(10, 50)]
      const view = { remaining: 0, resetUs: 0, growUs: 0 }
      const taken: { mark: { ref: number; refPart: number }; policy: AtOnce; untilUs: number; cost: number }[] = []
      let state = long.fit(undefined, 0)
      let slots: typeof taken = []
      let nowUs = 1000
      for (const each of steps) {
        if (each.verb === 'move') nowUs += each.us
        slots = slots.filter(({ untilUs }) => untilUs > nowUs)
        const used = slots.reduce((sum, { cost }) => sum + cost, 0)
        if (each.verb === 'take') {
          const policy = each.long ? long : short
          expect(policy.waitUs(state, 0, nowUs, each.cost) === 0).toBe(used + each.cost <= 10)
          if (used + each.cost > 10) continue
          const mark = { ref: 0, refPart: 0 }
          state = policy.fit(state, nowUs)
          policy.book(state, 0, nowUs, each.cost, mark)
          slots.push({ mark, policy, untilUs: nowUs + (each.long ? 200 : 50), cost: each.cost })
          taken.push(slots.at(-1) as (typeof taken)[number])
        } else if (each.verb === 'renew' && taken.length > 0) {
          const slot = taken[each.which % taken.length] as (typeof taken)[number]
          slot.policy.renew(state, 0, nowUs, slot.mark)
          if (slots.includes(slot)) slot.untilUs = nowUs + slot.policy.windowUs()
        } else if (each.verb === 'release' && taken.length > 0) {
          const slot = taken[each.which % taken.length] as (typeof taken)[number]
          slot.policy.giveBack(state, 0, nowUs, 1, slot.mark)
          slots = slots.filter((other) => other !== slot)
        }
        long.look(state, 0, nowUs, view)
        expect(view.remaining).toBe(10 - slots.reduce((sum, { cost }) => sum + cost, 0))
        expect(view.resetUs).toBe(Math.max(0, ...slots.map(({ untilUs }) => untilUs - nowUs)))
      }
    }),
    runs(500),
  )
})
