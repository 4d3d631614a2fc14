export { createProxy } from './proxy.ts'
export { discardRest } from './request-body.ts'
export type {
  BreakerNews,
  EndpointStats,
  HealthOptions,
  Hooks,
  HttpProxy,
  Outcome,
  Peer,
  ProblemCode,
  ProxyOptions,
  ProxyStats,
  RawHeaders,
  RetryOptions,
  UpstreamOptions,
} from './types.ts'
