import * as z from 'zod'
import { ms, refuse, strict, whole } from './fields.ts'
import { anyLimit, headerName, priority, when } from './limit-schema.ts'

const mode = z.enum(['enforce', 'observe', 'off'])
const percent = z.number().min(0).max(100)
const kept = z.number().min(0).max(90)
const share = z.number().min(0.01).max(1)
const MOST_SLOTS = 1_000_000

const concurrency = z
  .union([
    z.literal(false),
    whole(1, MOST_SLOTS),
    strict({
      algorithm: z
        .enum(['gradient2', 'vegas', 'aimd', 'fixed'])
        .default('gradient2')
        .describe('How it is found out how much fits at once; fixed: limit says so'),
      limit: whole(1, MOST_SLOTS).optional().describe('How many at once, with algorithm: fixed'),
      min: whole(1, MOST_SLOTS).optional().describe('Never fewer at once'),
      initial: whole(1, MOST_SLOTS).optional().describe('How many at once before anything is known'),
      max: whole(1, MOST_SLOTS).optional().describe('Never more at once'),
      mode: mode.default('enforce').describe('observe: counts and tells, refuses nobody'),
    }).superRefine((value, context) => {
      const { algorithm, limit, initial } = value
      // What the library takes where nothing is said.
      const max = value.max ?? Math.max(1000, value.min ?? 0)
      const min = value.min ?? Math.min(4, max)
      const isFixed = algorithm === 'fixed'
      const strange = isFixed ? (['min', 'initial', 'max'] as const).find((each) => value[each] !== undefined) : 'limit'
      if (isFixed && limit === undefined)
        refuse(context, { reason: 'nothing says how many at once', suggestion: 'give limit, such as 100' }, [])
      if (strange !== undefined && value[strange] !== undefined)
        refuse(context, { reason: `algorithm ${algorithm} has no "${strange}"`, suggestion: 'leave it out' }, [strange])
      if (min > max) refuse(context, { reason: `min ${min} is above max ${max}`, suggestion: 'swap them' }, ['min'])
      else if (initial !== undefined && (initial < min || initial > max))
        refuse(
          context,
          { reason: `initial ${initial} is not between ${min} and ${max}`, suggestion: 'set min or max' },
          ['initial'],
        )
    }),
  ])
  .transform((value) =>
    typeof value === 'number' ? { algorithm: 'fixed' as const, limit: value, mode: 'enforce' as const } : value,
  )

const queue = z.union([
  z.literal(false),
  strict({
    size: whole(1, 10_000).default(100).describe('How many may wait'),
    targetMs: ms().default(5).describe('How long one may wait while the queue does not drain'),
    intervalMs: ms().default(100).describe('How long it may take to drain before that holds'),
  }).superRefine(({ targetMs, intervalMs }, context) => {
    if (targetMs > intervalMs)
      refuse(
        context,
        { reason: `targetMs ${targetMs} is above intervalMs ${intervalMs}`, suggestion: 'give a smaller one' },
        ['targetMs'],
      )
  }),
])

const utilisation = z.union([
  z.literal(false),
  strict({
    good: share.default(0.9).describe('Below this, less is shed'),
    bad: share.default(0.98).describe('Above this, more is shed'),
    afterMs: ms(0).optional().describe('How long it must be bad before anything is shed'),
    rampMs: ms().optional().describe('How long from then until all but critical requests are shed'),
    mode: mode.default('enforce').describe('observe: counts and tells, refuses nobody'),
  }).superRefine(({ good, bad }, context) => {
    if (good >= bad)
      refuse(context, { reason: `good ${good} is not below bad ${bad}`, suggestion: 'give a smaller one' }, ['good'])
  }),
])

const fleet = strict({
  limit: anyLimit.optional().describe('What the fleet can do, such as 10000/s'),
  atOnce: whole(1, 1e15).optional().describe('How many it can do at once, instead of a rate'),
  reserve: percent.default(20).describe('How many of a hundred are kept for critical requests'),
  mode: mode.default('enforce').describe('observe: counts and tells, refuses nobody'),
})

/** Tells the upstream the priority, unless rules name another. */
export const PRIORITY_HEADER = 'x-headgate-priority'

/** Who goes first when there is too much to do. */
export const overloadSchema = strict({
  mode: mode.default('enforce').describe('observe: counts and tells, sheds nobody; off: the kill switch'),
  header: headerName
    .transform((text) => text.toLowerCase())
    .optional()
    .describe(
      `Tells the upstream the priority, ${PRIORITY_HEADER} unless said; where it is said, trustedProxies are believed it: let them set it`,
    ),
  priorities: z
    .array(
      strict({
        when: when.prefault({}).describe('Which requests; all of these must hold'),
        priority: priority.describe('How much they matter'),
      }),
    )
    .default([])
    .describe('The first that matches says how much a request matters'),
  concurrency: concurrency.prefault({}).describe('How many requests are worked on at once; false: any number'),
  queue: queue.prefault({}).describe('Where requests wait for their turn; false: nowhere'),
  utilisation: utilisation.prefault({}).describe('Sheds while this process has too much to do; false: never'),
  reserve: strict({
    critical: kept.default(10).describe('Left free by all others'),
    high: kept.default(5).describe('Left free by normal and low ones'),
    normal: kept.default(5).describe('Left free by low ones'),
  })
    .superRefine(({ critical, high, normal }, context) => {
      const all = critical + high + normal
      if (all > 90)
        refuse(context, { reason: `${all} of a hundred are kept`, suggestion: 'keep 90 at most, for the rest to work' })
    })
    .prefault({})
    .describe('How many of a hundred slots less important requests leave free for each'),
  fleet: fleet.optional().describe('What less important requests may take of all instances together'),
  deadlineMs: ms().optional().describe('In which time a request has to be done to be of any use'),
  deadlineHeader: headerName
    .transform((text) => text.toLowerCase())
    .optional()
    .describe('The header of trustedProxies that says so in milliseconds'),
})

/** What may be said in place of rules, while they hold: of processes that may be older or newer, so it is looked at. */
export const tuningSchema = strict({
  mode: mode.optional(),
  concurrency: strict({
    mode: mode.optional(),
    min: whole(1, MOST_SLOTS).optional(),
    max: whole(1, MOST_SLOTS).optional(),
  }).optional(),
  utilisation: strict({ mode: mode.optional(), good: share.optional(), bad: share.optional() }).optional(),
  queue: strict({
    size: whole(1, 10_000).optional(),
    targetMs: z.number().min(1).max(3_600_000).optional(),
  }).optional(),
})

export type OverloadRules = z.output<typeof overloadSchema>
export type FleetRules = z.output<typeof fleet>
