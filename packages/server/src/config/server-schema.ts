import * as z from 'zod'
import { ms, name, refuse, strict, whole } from './fields.ts'

/** 0 takes a free one, and says which. */
export const port = whole(0, 65_535)

const tls = strict({
  cert: name.describe('File with the certificate and those above it, read again when it changes'),
  key: name.describe('File with its key'),
  ca: name.optional().describe('File with the certificates that may sign those of callers'),
  requestCert: z.boolean().default(false).describe('Whether callers must show a certificate'),
}).superRefine(({ ca, requestCert }, context) => {
  if (requestCert && ca === undefined)
    refuse(
      context,
      { reason: 'callers must show a certificate, and nothing says whose', suggestion: 'name the file in ca' },
      ['requestCert'],
    )
})

export const serverSchema = strict({
  host: name.default('0.0.0.0').describe('Address to listen on'),
  port: port.default(8080).describe('Gateway and decision API; 0 takes a free one'),
  grpcPort: z
    .union([z.literal(false), port])
    .default(8081)
    .describe('Envoy rate limit service, open where it is given or there is envoy; false: none'),
  adminHost: name.default('127.0.0.1').describe('Address of admin, metrics and dashboard'),
  adminPort: port.default(8082).describe('Admin, metrics and dashboard'),
  workers: z
    .union([z.literal('auto'), whole(1, 1024)])
    .default(1)
    .describe('How many processes; auto: one per core'),
  tls: tls.optional().describe('Certificate for callers'),
  adminTls: tls.optional().describe('Certificate of the admin port'),
  maxHeaderBytes: whole(1024, 1_048_576).default(16_384).describe('Longest header block; longer ones get 431'),
  maxBodyBytes: whole(0).optional().describe('Longest body of a request; longer ones get 413; unbounded unless said'),
  maxReadBytes: whole(1, 67_108_864)
    .default(1_048_576)
    .describe('Longest body that is read for what it costs, also once decoded; longer ones get 413'),
  requestTimeoutMs: ms(0).default(300_000).describe('How long a request may take to arrive; 0 for ever'),
  headersTimeoutMs: ms(0).default(15_000).describe('How long its headers may take; 0 for ever'),
  keepAliveTimeoutMs: ms(0)
    .default(65_000)
    .describe('How long an unused connection stays open: longer than at the balancer in front'),
  maxConnections: whole(1).optional().describe('Most connections at a time; unbounded unless said'),
  drainMs: ms(0).default(20_000).describe('How long running requests have to end when the service stops'),
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info').describe('What is logged'),
})

export type ServerRules = z.output<typeof serverSchema>
