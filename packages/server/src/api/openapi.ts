import * as z from 'zod'
import { rateLimitRequestSchema, rateLimitResponseSchema } from '../rls/json-schemas.ts'
import {
  correctedSchema,
  decisionSchema,
  itemErrorSchema,
  itemSchema,
  MOST_ITEMS,
  problemSchema,
  reservationSchema,
  settleSchema,
  statusSchema,
} from './schemas.ts'

type Json = Readonly<Record<string, unknown>>

function schemaOf(schema: z.ZodType): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => tidy(jsonSchema),
  })
  return rest
}

/** Leaves out the bound that only says that numbers are exact. */
function tidy(schema: { maximum?: number; minimum?: number }): void {
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
}

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const json = (schema: Json, description: string) => ({ description, content: { 'application/json': { schema } } })
const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: ref('Problem') } },
})
const response = (name: string) => ({ $ref: `#/components/responses/${name}` })
const oneOrBatch = (schema: Json, item: Json = schema) => ({
  oneOf: [schema, { type: 'array', maxItems: MOST_ITEMS, items: item }],
})
const rateLimitFields = Object.fromEntries(
  [
    'RateLimit',
    'RateLimit-Policy',
    'X-RateLimit-Limit',
    'X-RateLimit-Remaining',
    'X-RateLimit-Reset',
    'X-RateLimit-Resource',
  ].map((name) => [name, { $ref: `#/components/headers/${name}` }]),
)

function asking(verb: 'take' | 'peek', summary: string): Json {
  return {
    post: {
      operationId: verb,
      summary,
      description: `One, or a list of up to ${MOST_ITEMS} that are decided in order. A refusal is an answer like any other.`,
      tags: ['Decisions'],
      security,
      requestBody: { required: true, content: { 'application/json': { schema: oneOrBatch(ref('Item')) } } },
      responses: {
        200: json(oneOrBatch(ref('Decision'), { oneOf: [ref('Decision'), ref('ItemError')] }), 'What was decided'),
        ...refusals(400, 413, 503),
      },
    },
  }
}

function correcting(verb: string, schema: string, summary: string): Json {
  return {
    post: {
      operationId: verb,
      summary,
      description: 'Acts once, at whichever instance; repeats change nothing and say so.',
      tags: ['Reservations'],
      security,
      requestBody: { required: true, content: { 'application/json': { schema: ref(schema) } } },
      responses: { 200: json(ref('Corrected'), 'Whether this call did it'), ...refusals(400, 404, 413, 503) },
    },
  }
}

const security = [{ token: [] }, {}]
const described: Readonly<Record<number, string>> = {
  400: 'Something in the body or the request is wrong',
  401: 'The token is missing or wrong',
  404: 'The reservation is not known, or has ended; or decisions are not offered here',
  405: 'The method is another',
  413: 'The body is too large',
  500: 'The store does not answer, and the limits say that nobody passes then',
  503: 'The store does not answer: try again',
}

function refusals(...statuses: number[]): Json {
  return Object.fromEntries(
    [...new Set([401, 404, 405, ...statuses])].sort().map((each) => [each, response(`Problem${each}`)]),
  )
}

function header(name: string, description: string, type = 'string') {
  return { name, in: 'header', description, required: false, schema: { type } }
}

const auth = {
  get: {
    operationId: 'auth',
    summary: 'Whether a proxy may pass a request on',
    description:
      'For auth_request of nginx and forward-auth of Traefik and Caddy, by any method. Headers about the request are believed from trusted proxies only. In-flight limits are judged and hold no slot; limits that count by the response count nothing.',
    tags: ['Decisions'],
    security,
    parameters: [
      {
        name: 'denied',
        in: 'query',
        description: 'Status of refusals; nginx needs 403',
        required: false,
        schema: { type: 'integer', minimum: 400, maximum: 599 },
      },
      header('X-Original-URI', 'nginx: path and query of the request'),
      header('X-Original-Method', 'nginx: its method'),
      header('X-Original-Host', 'nginx: its host'),
      header('X-Forwarded-Uri', 'Traefik, Caddy: path and query of the request'),
      header('X-Forwarded-Method', 'Traefik, Caddy: its method'),
      header('X-Forwarded-Host', 'Traefik, Caddy: its host'),
      header('X-Forwarded-For', 'Where it comes from'),
    ],
    responses: {
      204: { description: 'It may', headers: rateLimitFields },
      ...refusals(400, 503),
      403: { ...problem('It may not, with denied=403'), headers: rateLimitFields },
      429: {
        ...problem('It may not'),
        headers: { ...rateLimitFields, 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
      },
    },
  },
}

const envoy = {
  post: {
    operationId: 'shouldRateLimit',
    summary: 'What an Envoy asks by gRPC, as JSON',
    description:
      'RateLimitRequest and RateLimitResponse of envoy.service.ratelimit.v3 in the JSON of Protocol Buffers. All descriptors are one decision: all are charged, or none is.',
    tags: ['Decisions'],
    security,
    requestBody: { required: true, content: { 'application/json': { schema: ref('RateLimitRequest') } } },
    responses: {
      200: json(ref('RateLimitResponse'), 'It may pass'),
      429: json(ref('RateLimitResponse'), 'It is over a limit'),
      ...refusals(400, 413, 500),
    },
  },
}

const status = {
  get: {
    operationId: 'rateLimit',
    summary: "The caller's limits, without spending",
    tags: ['Callers'],
    security: [],
    parameters: ['path', 'method'].map((name) => ({
      name,
      in: 'query',
      description: `Limits of requests with this ${name}`,
      required: false,
      schema: { type: 'string' },
    })),
    responses: {
      200: json(ref('Status'), 'All limits that concern the caller'),
      400: response('Problem400'),
      405: response('Problem405'),
    },
  },
}

const self = {
  get: {
    operationId: 'openapi',
    summary: 'This document',
    tags: ['Callers'],
    security: [],
    responses: { 200: json({ type: 'object' }, 'OpenAPI 3.1'), 405: response('Problem405') },
  },
}

const headers = {
  RateLimit: ['string', 'What is left of each limit'],
  'RateLimit-Policy': ['string', 'What each limit is'],
  'X-RateLimit-Limit': ['integer', 'What fits at once'],
  'X-RateLimit-Remaining': ['integer', 'What is left'],
  'X-RateLimit-Reset': ['integer', 'When all is unused again, in seconds since the epoch'],
  'X-RateLimit-Resource': ['string', 'Which limit these are about'],
  'Retry-After': ['integer', 'Seconds to wait; absent when waiting cannot help'],
}

let made: Json | undefined

/** What the API is, for programs that make clients of it. */
export function openApi(): Json {
  made ??= make()
  return made
}

function make(): Json {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Headgate decision API',
      version: '1.0.0',
      description: 'Rate limits decided over HTTP, by rules or by limits that a call brings along.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The instance that serves this document' }],
    tags: [
      { name: 'Decisions', description: 'May this pass?' },
      { name: 'Reservations', description: 'What was really used' },
      { name: 'Callers', description: 'For those who are limited' },
    ],
    paths: {
      '/v1/take': asking('take', 'Spends, if all limits let it through'),
      '/v1/peek': asking('peek', 'Says what a take would get'),
      '/v1/settle': correcting('settle', 'Settle', 'Corrects a take to what was really used'),
      '/v1/refund': correcting('refund', 'Reservation', 'Gives back what was taken'),
      '/v1/release': correcting('release', 'Reservation', 'Frees slots of in-flight limits'),
      '/v1/auth': auth,
      '/json': envoy,
      '/rate_limit': status,
      '/openapi.json': self,
    },
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'HEADGATE_TOKEN, where that is set' },
      },
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, [type, description]]) => [name, { description, schema: { type } }]),
      ),
      responses: Object.fromEntries(
        Object.entries(described).map(([each, description]) => [`Problem${each}`, problem(description)]),
      ),
      schemas: {
        Item: schemaOf(itemSchema),
        Decision: schemaOf(decisionSchema),
        ItemError: { ...schemaOf(itemErrorSchema), properties: { error: ref('Problem') } },
        Problem: schemaOf(problemSchema),
        Settle: schemaOf(settleSchema),
        Reservation: schemaOf(reservationSchema),
        Corrected: schemaOf(correctedSchema),
        Status: schemaOf(statusSchema),
        RateLimitRequest: schemaOf(rateLimitRequestSchema),
        RateLimitResponse: schemaOf(rateLimitResponseSchema),
      },
    },
  }
}
