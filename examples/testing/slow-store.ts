import { type Group, type MemoryOptions, memory, type Result, type Store } from 'headgate'

// #region store
/** Memory behind a promise, as a store across a network would answer. */
export function slowStore(options: MemoryOptions = {}): Store {
  const inner = memory(options)
  return {
    async run(groups: readonly Group[], nowUs?: number): Promise<Result[]> {
      await Promise.resolve()
      return inner.run(groups, nowUs)
    },
  }
}
// #endregion
