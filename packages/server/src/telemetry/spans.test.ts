import { propagation, type Span, trace } from '@opentelemetry/api'
import { createGate } from 'headgate'
import { afterEach, expect, test } from 'vitest'
import { startUpstream } from '../../test/upstream.ts'
import { noLog } from '../log.ts'
import { serve } from '../serve.ts'
import { DenialLog } from './denial-log.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  trace.disable()
  propagation.disable()
})

test('who has set up OpenTelemetry gets a span per decision, and the upstream goes on with the trace', async () => {
  const ended: Record<string, unknown>[] = []
  const spanContext = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startActiveSpan: () => undefined as never,
      startSpan: (name, options) => {
        const attributes: Record<string, unknown> = { name, ...options?.attributes }
        const span = {
          setAttribute: (key: string, value: unknown) => Object.assign(attributes, { [key]: value }),
          spanContext: () => spanContext,
          end: () => ended.push(attributes),
        }
        return span as unknown as Span
      },
    }),
  })
  propagation.setGlobalPropagator({
    extract: (parent) => parent,
    fields: () => ['traceparent'],
    inject: (_context, carrier, setter) =>
      setter.set(carrier, 'traceparent', `00-${spanContext.traceId}-${spanContext.spanId}-01`),
  })
  const behind = await startUpstream()
  closing.push(() => behind.close())
  const server = '{ port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1 }'
  const running = await serve({
    text: `upstream: ${behind.url}\nserver: ${server}\nlimits: { per-ip: { limit: 1/h, by: [ip] } }`,
  })
  closing.push(() => running.stop())
  for (let i = 0; i < 2; i++) await fetch(`http://127.0.0.1:${running.port}/`)
  expect(ended.map((each) => each['headgate.ok'])).toEqual([true, false])
  expect(ended[0]).toMatchObject({
    name: 'headgate.decision',
    'headgate.limit': 'per-ip',
    'http.request.method': 'GET',
  })
  expect(behind.got[0]?.headers.traceparent).toContain(spanContext.traceId)
})

test('a flood of refusals is told in a few lines, which say how many more there were', () => {
  const lines: Record<string, unknown>[] = []
  let nowMs = 5_000
  const log = new DenialLog({ ...noLog, info: (fields) => lines.push(fields as Record<string, unknown>) }, () => nowMs)
  const gate = createGate({ limit: '1/h' })
  for (let i = 0; i < 1001; i++) log.onDecision(gate.take('secret-key') as never)
  expect(lines).toHaveLength(5)
  nowMs += 1000
  log.onDecision(gate.take('secret-key') as never)
  expect(lines.at(-1)).toMatchObject({ limit: 'default', untold: 995 })
  expect(JSON.stringify(lines)).not.toContain('secret-key')
})
