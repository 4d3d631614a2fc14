export { createProxy } from './proxy.ts'
export type {
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
  UpstreamOptions,
} from './types.ts'
