// Apart from flat.ts, so that the parent process does not load the library it reports on.
export const algorithms = [
  'gcra',
  'token-bucket',
  'leaky-bucket',
  'fixed-window',
  'sliding-window',
  'sliding-log',
  'strict-window',
] as const
export const checkpoints = [1_000, 10_000, 100_000, 1_000_000] as const
