import { GrpcError, type Method, PREFIX, Reader } from '../grpc/index.ts'
import type { Service } from '../service.ts'
import { type Decider, Unavailable } from './decide.ts'
import { BadRequest, readRequest, writeResponse } from './messages.ts'

export const SERVICE = 'envoy.service.ratelimit.v3.RateLimitService'
export const SHOULD_RATE_LIMIT = `/${SERVICE}/ShouldRateLimit`

/** `ShouldRateLimit`, by the rules that hold when it is called. */
export function shouldRateLimit(service: Service, decider: Decider): Method {
  return {
    answer(message, { withinMs }) {
      try {
        const decision = decider.decide(service.rules.envoy, readRequest(new Reader(message)), withinMs)
        const told = ({ response, undo }: Awaited<typeof decision>) => ({
          message: writeResponse(response, PREFIX),
          undo,
        })
        if (!(decision instanceof Promise)) return told(decision)
        return decision.then(told, (error) => {
          throw faultOf(error)
        })
      } catch (error) {
        throw faultOf(error)
      }
    },
  }
}

function faultOf(error: unknown): unknown {
  if (error instanceof BadRequest) return new GrpcError('INVALID_ARGUMENT', error.message)
  if (error instanceof Unavailable) return new GrpcError('UNAVAILABLE', error.message)
  return error
}
