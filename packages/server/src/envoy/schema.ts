import * as z from 'zod'
import { checked, strict } from '../config/fields.ts'

/** As envoyproxy/ratelimit knows them, in either case. Those of a month and a year are 30 and 365 days long. */
export const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year'] as const
export type Unit = (typeof units)[number]

/** What is left empty is not said. Numbers and truths are texts here, also where they come from rules, which tell them apart. */
function orNothing<T extends z.ZodType>(schema: T) {
  return z.preprocess((value) => (value === '' || value === null ? undefined : written(value)), schema.optional())
}

function written(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
}

const TRUTHS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['yes', true],
  ['on', true],
  ['y', true],
  ['false', false],
  ['no', false],
  ['off', false],
  ['n', false],
])

const truth = checked((text) =>
  TRUTHS.has(text.toLowerCase())
    ? undefined
    : { reason: `${shown(text)} is neither true nor false`, suggestion: 'write true or false' },
).transform((text) => TRUTHS.get(text.toLowerCase()) === true)

const MOST = 0xffffffff

const count = checked((text) =>
  /^\d{1,10}$/.test(text) && Number(text) <= MOST
    ? undefined
    : { reason: `${shown(text)} is no number of requests`, suggestion: `give a whole number from 0 to ${MOST}` },
).transform(Number)

const unit = checked((text) =>
  units.some((each) => each === text.toLowerCase())
    ? undefined
    : { reason: `${shown(text)} is no unit`, suggestion: `give one of ${units.join(', ')}` },
).transform((text) => text.toLowerCase() as Unit)

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 60))
}

const rateLimit = strict({
  unit: orNothing(unit),
  requests_per_unit: orNothing(count),
  unlimited: orNothing(truth),
  name: orNothing(z.string()),
  replaces: orNothing(z.array(strict({ name: orNothing(z.string()) }))),
})

const descriptor = strict({
  key: z.string().min(1),
  value: orNothing(z.string()),
  rate_limit: orNothing(rateLimit),
  get descriptors() {
    return orNothing(z.array(descriptor))
  },
  shadow_mode: orNothing(truth),
  quota_mode: orNothing(truth),
  detailed_metric: orNothing(truth),
  value_to_metric: orNothing(truth),
  share_threshold: orNothing(truth),
  metadata: orNothing(z.unknown()),
})

export const envoySchema = strict({
  domain: z.string().min(1),
  descriptors: orNothing(z.array(descriptor)),
})

export type RawConfig = z.output<typeof envoySchema>
export type RawDescriptor = z.output<typeof descriptor>
export type RawRateLimit = z.output<typeof rateLimit>
