export { type Authority, authority } from './authority.ts'
export type { Channel } from './ipc.ts'
export { type IpcOptions, ipcStore } from './ipc-store.ts'
