import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { describe, expect, test } from 'vitest'
import { seed } from '../../../headgate/test/random.ts'
import { Malformed, Reader } from '../grpc/index.ts'
import {
  checkRequest,
  codes,
  type Descriptor,
  type RateLimitRequest,
  type RateLimitResponse,
  readRequest,
  writeResponse,
} from './messages.ts'

const root = protobuf.loadSync(fileURLToPath(new URL('../../test/rls.proto', import.meta.url)))
const typeOf = (name: string) => root.lookupType(`envoy.service.ratelimit.v3.${name}`)
const [Request, Response, Later] = ['RateLimitRequest', 'RateLimitResponse', 'Later'].map(typeOf) as [
  protobuf.Type,
  protobuf.Type,
  protobuf.Type,
]

const runs = { seed, numRuns: 500 }

const text = fc.string({ unit: 'binary', maxLength: 40 })
const uint32 = fc.oneof(fc.constantFrom(0, 1, 127, 128, 2 ** 31, 2 ** 32 - 1), fc.nat())
const uint64 = fc.oneof(fc.constantFrom(0, 1, 2 ** 32, 2 ** 53 - 1), fc.maxSafeNat())
const descriptors: fc.Arbitrary<Descriptor> = fc.record(
  {
    entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
    isNegativeHits: fc.boolean(),
    limit: fc.record({ requestsPerUnit: uint32, unit: fc.nat({ max: 6 }) }),
    hitsAddend: uint64,
  },
  { requiredKeys: ['entries', 'isNegativeHits'] },
)
const requests: fc.Arbitrary<RateLimitRequest> = fc.record({
  domain: text,
  descriptors: fc.array(descriptors, { maxLength: 4 }),
  hitsAddend: uint32,
})

/** As protobufjs takes it. */
function plain({ descriptors, ...rest }: RateLimitRequest): object {
  const wrapped = descriptors.map(({ hitsAddend: value, ...each }) =>
    value === undefined ? each : { ...each, hitsAddend: { value } },
  )
  return { ...rest, descriptors: wrapped }
}

function written(type: protobuf.Type, message: object): Buffer {
  return Buffer.from(type.encode(type.fromObject(message)).finish())
}

describe(`messages (HEADGATE_SEED=${seed})`, () => {
  test('a request that another program wrote is read as it was meant', () => {
    fc.assert(
      fc.property(requests, (request) => {
        expect(readRequest(new Reader(written(Request, plain(request))))).toEqual(request)
      }),
      runs,
    )
  })

  test('a response is read by another program as it was meant', () => {
    const responses: fc.Arbitrary<RateLimitResponse> = fc.record({
      overallCode: fc.constantFrom('OK', 'OVER_LIMIT', 'UNKNOWN'),
      headers: fc.array(fc.tuple(text, text), { maxLength: 3 }),
      statuses: fc.array(
        fc.record(
          {
            code: fc.constantFrom('OK' as const, 'OVER_LIMIT' as const),
            limitRemaining: uint32,
            currentLimit: fc.record({ requestsPerUnit: uint32, unit: fc.nat({ max: 7 }), name: text }),
            secondsUntilReset: fc.nat({ max: 31_536_000 }),
          },
          { requiredKeys: ['code', 'limitRemaining'] },
        ),
        { maxLength: 40 },
      ),
    })
    fc.assert(
      fc.property(responses, fc.nat({ max: 8 }), (response, before) => {
        const bytes = writeResponse(response, before).subarray(before)
        const read = Response.toObject(Response.decode(bytes), { longs: Number, defaults: true })
        expect(read).toMatchObject({
          overallCode: codes[response.overallCode],
          responseHeadersToAdd: response.headers.map(([key, value]) => ({ key, value })),
          statuses: response.statuses.map(({ code, limitRemaining, currentLimit, secondsUntilReset }) => ({
            code: codes[code],
            limitRemaining,
            currentLimit: currentLimit ?? null,
            durationUntilReset: secondsUntilReset === undefined ? null : { seconds: secondsUntilReset, nanos: 0 },
          })),
        })
      }),
      runs,
    )
  })

  test('what a later version says besides is passed over', () => {
    const later = fc.record({
      inner: fc.record({ text, numbers: fc.array(fc.nat(), { maxLength: 3 }) }),
      small: fc.nat(),
      large: fc.double(),
      negative: fc.integer(),
      raw: fc.uint8Array({ maxLength: 20 }),
    })
    fc.assert(
      fc.property(requests, later, (request, more) => {
        expect(readRequest(new Reader(written(Later, { ...plain(request), ...more })))).toEqual(request)
      }),
      runs,
    )
  })

  test('a message that is cut off, or is none, is malformed and nothing else', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 100 }),
      fc.tuple(requests, fc.double({ min: 0, max: 1, noNaN: true })).map(([request, share]) => {
        const whole = written(Request, plain(request))
        return whole.subarray(0, Math.floor(whole.length * share))
      }),
      fc.tuple(requests, fc.nat(), fc.nat({ max: 255 })).map(([request, at, byte]) => {
        const whole = written(Request, plain(request))
        if (whole.length > 0) whole[at % whole.length] = byte
        return whole
      }),
    )
    fc.assert(
      fc.property(bytes, (each) => {
        try {
          const { domain, descriptors } = readRequest(new Reader(Buffer.from(each)))
          expect(typeof domain).toBe('string')
          expect(Array.isArray(descriptors)).toBe(true)
        } catch (error) {
          expect(error).toBeInstanceOf(Malformed)
        }
      }),
      { ...runs, numRuns: 3000 },
    )
  })
})

function read(...bytes: number[]): RateLimitRequest {
  return readRequest(new Reader(Buffer.from(bytes)))
}

describe('at the edges', () => {
  test('an addend beyond 2^53 - 1 is that: no larger number is exact', () => {
    const request = { domain: 'a', descriptors: [{ hitsAddend: { value: '18446744073709551615' } }] }
    const { descriptors } = readRequest(new Reader(written(Request, request)))
    expect(descriptors[0]?.hitsAddend).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('a number of 32 bits is cut to that, as others cut it', () => {
    // 3: 2^32 + 5, and -2 as ten bytes
    expect(read(0x18, 0x85, 0x80, 0x80, 0x80, 0x10).hitsAddend).toBe(5)
    expect(read(0x18, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01).hitsAddend).toBe(2 ** 32 - 2)
    expect(() => read(0x18, ...Array.from({ length: 10 }, () => 0xff), 0x01)).toThrow(Malformed)
  })

  test('what comes twice counts as it came last, and parts of a message are one', () => {
    const twice = Buffer.concat([written(Request, { domain: 'a', hitsAddend: 1 }), written(Request, { domain: 'b' })])
    expect(readRequest(new Reader(twice))).toEqual({ domain: 'b', descriptors: [], hitsAddend: 1 })
    // a descriptor with limit { 1: 7 } and limit { 2: 3 }
    expect(read(0x12, 8, 0x12, 2, 0x08, 7, 0x12, 2, 0x10, 3).descriptors[0]?.limit).toEqual({
      requestsPerUnit: 7,
      unit: 3,
    })
  })

  test('a text that would end after the message it is in is none', () => {
    expect(() => read(0x12, 4, 0x0a, 2, 0x0a, 5, 0x18, 1, 0x18, 1, 0x18, 1)).toThrow('ends inside a field')
  })

  test('a field of another type than it should be is passed over', () => {
    expect(read(0x08, 1, 0x1a, 1, 0x41).domain).toBe('')
  })

  test('groups, which nobody writes any more, are passed over whole', () => {
    expect(read(0x2b, 0x08, 1, 0x33, 0x34, 0x2c, 0x18, 4).hitsAddend).toBe(4)
    expect(() => read(0x2b, 0x08, 1)).toThrow('a group has no end')
    expect(() => read(...Array.from({ length: 500 }, () => 0x2b))).toThrow('nested too deep')
    expect(() => read(0x2c)).toThrow(Malformed)
    expect(() => read(0x00)).toThrow('the number 0')
  })

  test.each([
    ['descriptors', [0x12, 0]],
    ['domains', [0x0a, 0]],
    ['fields of later versions', [0x28, 0]],
    ['groups', [0x2b, 0x2c]],
    ['entries of one descriptor', [0x0a, 0], [0x12, 0xe0, 0xd4, 0x03]],
    ['limits of one descriptor', [0x12, 0], [0x12, 0xe0, 0xd4, 0x03]],
    ['descriptors of 50 entries', [0x12, 100, ...Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? 0x0a : 0))]],
  ])('a small message that would take long to read is not read to its end: %s', (_, bytes, before: number[] = []) => {
    const many = Buffer.concat([Buffer.from(before), Buffer.alloc(61_200, Buffer.from(bytes))])
    expect(() => readRequest(new Reader(many))).toThrow('more than 20000 fields')
  })

  test('the largest request that may be is read to its end', () => {
    const entries = Array.from({ length: 5 }, () => ({ key: 'a', value: 'b' }))
    const request = { domain: 'a', descriptors: Array.from({ length: 1000 }, () => ({ entries })) }
    const largest = readRequest(new Reader(written(Request, request)))
    expect(largest.descriptors).toHaveLength(1000)
    expect(() => checkRequest(largest)).not.toThrow()
  })

  test('a value that is no UTF-8 is counted, not refused: with an error the request would pass', () => {
    expect(read(0x0a, 2, 0x61, 0xff).domain).toBe('a\ufffd')
  })

  test.each([
    [{ domain: '' }, 'the domain is empty'],
    [{ descriptors: [] }, 'there are no descriptors'],
    [{ descriptors: [{ entries: [], isNegativeHits: false }] }, 'descriptor 0 has no entries'],
    [{ descriptors: [{ entries: [{ key: '', value: 'x' }], isNegativeHits: false }] }, 'an entry without a key'],
    [
      {
        descriptors: [
          { entries: [{ key: 'a', value: '' }], limit: { requestsPerUnit: 1, unit: 0 }, isNegativeHits: false },
        ],
      },
      'unit 0',
    ],
    [
      {
        descriptors: Array.from({ length: 1001 }, () => ({
          entries: [{ key: 'a', value: '' }],
          isNegativeHits: false,
        })),
      },
      'more than 1000 descriptors',
    ],
    [
      {
        descriptors: [{ entries: Array.from({ length: 101 }, () => ({ key: 'a', value: '' })), isNegativeHits: false }],
      },
      'more than 100 entries',
    ],
    [
      {
        descriptors: Array.from({ length: 51 }, () => ({
          entries: Array.from({ length: 99 }, () => ({ key: 'a', value: '' })),
          isNegativeHits: false,
        })),
      },
      'more than 5000 entries',
    ],
  ])('what cannot be decided is said: %#', (part, message) => {
    const entries = [{ key: 'a', value: 'b' }]
    const request = { domain: 'web', descriptors: [{ entries, isNegativeHits: false }], hitsAddend: 0 }
    expect(() => checkRequest(request)).not.toThrow()
    expect(() => checkRequest({ ...request, ...part })).toThrow(message)
  })
})
