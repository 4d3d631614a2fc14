import type { IncomingMessage } from 'node:http'
import type { Decided } from '../rules/rule-set.ts'

type Otel = typeof import('@opentelemetry/api')

/** A span of one decision. */
export interface DecisionSpan {
  end(decision: Decided | undefined): void
  /** Header fields by which the upstream goes on with the trace. */
  inject(headers: string[]): void
}

/** Spans for those who have set up OpenTelemetry; without its package, or a provider, there are none and they cost nothing. */
export class Spans {
  readonly #otel: Otel

  constructor(otel: Otel) {
    this.#otel = otel
  }

  static async find(): Promise<Spans | undefined> {
    try {
      return new Spans(await import('@opentelemetry/api'))
    } catch {
      return undefined // not installed
    }
  }

  start(req: IncomingMessage): DecisionSpan | undefined {
    const { context, propagation, ProxyTracerProvider, SpanKind, trace } = this.#otel
    const provider = trace.getTracerProvider()
    if (provider instanceof ProxyTracerProvider && provider.getDelegateTracer('headgate') === undefined)
      return undefined
    const parent = propagation.extract(context.active(), req.headers)
    const attributes = { 'http.request.method': req.method ?? 'GET' }
    const span = trace
      .getTracer('headgate')
      .startSpan('headgate.decision', { kind: SpanKind.SERVER, attributes }, parent)
    return {
      end(decision) {
        if (decision !== undefined) {
          span.setAttribute('headgate.ok', decision.ok)
          span.setAttribute('headgate.limit', decision.limit)
          if (decision.degraded !== false) span.setAttribute('headgate.degraded', decision.degraded)
        }
        span.end()
      },
      inject(headers) {
        propagation.inject(trace.setSpan(parent, span), headers, {
          set: (raw, name, value) => replace(raw, name, value),
        })
      },
    }
  }
}

function replace(headers: string[], name: string, value: string): void {
  for (let i = headers.length - 2; i >= 0; i -= 2)
    if ((headers[i] as string).toLowerCase() === name.toLowerCase()) headers.splice(i, 2)
  headers.push(name, value)
}
