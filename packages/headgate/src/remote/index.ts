export type { LeaseOptions } from '../stores/leases.ts'
export type { Transport } from './batches.ts'
export { RemoteFailed } from './failures.ts'
export {
  type Fetch,
  type FetchInit,
  type FetchResponse,
  type LeasedRemoteOptions,
  type RemoteOptions,
  remote,
} from './http.ts'
export type { Message, Reply } from './protocol.ts'
export { answerer, type ServeOptions, serveStore } from './serve.ts'
export { LeasedRemoteStore, RemoteStore } from './store.ts'
