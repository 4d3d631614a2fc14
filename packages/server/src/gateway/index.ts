export { fieldName, isFieldText } from './fields.ts'
export { createProxy } from './proxy.ts'
export { discardRest } from './request-body.ts'
export type {
  BodyMeter,
  BreakerNews,
  Cut,
  EndpointStats,
  HealthOptions,
  Hooks,
  HttpProxy,
  Outcome,
  Passes,
  Peer,
  ProblemCode,
  ProxyOptions,
  ProxyStats,
  RawHeaders,
  RetryOptions,
  UpstreamOptions,
} from './types.ts'
export { isWebSocket } from './upgrade.ts'
