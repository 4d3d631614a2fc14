import * as z from 'zod'
import { envoySchema } from '../envoy/schema.ts'
import { name, oneOrMany, strict } from './fields.ts'

const headerStyle = z.enum(['ietf', 'draft-7', 'draft-6', 'legacy'])

const object = strict({
  files: oneOrMany(name, 0)
    .default([])
    .describe('Configurations of envoyproxy/ratelimit, or folders of them, from where this file is'),
  domains: z.array(envoySchema).default([]).describe('Such configurations themselves'),
  headers: oneOrMany(headerStyle, 0)
    .default([])
    .describe('Which header fields Envoy is told to add to responses; none unless said'),
  onStoreError: z
    .enum(['allow', 'deny', 'local'])
    .optional()
    .describe('What happens while the store does not answer; deny: Envoy is told of an error'),
})

const ofFiles = (files: readonly string[]) => object.parse({ files })

/** What is in files comes to what is in `domains` when rules are loaded. */
export const envoyRulesSchema = z
  .union([oneOrMany(name), object])
  .transform((envoy) => (Array.isArray(envoy) ? ofFiles(envoy) : envoy))

export type EnvoyRules = z.output<typeof envoyRulesSchema>
