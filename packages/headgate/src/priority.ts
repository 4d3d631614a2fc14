/** How much a request matters: under overload `low` goes first and `critical` last. */
export type Priority = 'critical' | 'high' | 'normal' | 'low'

/** Most important first. */
export const priorities: readonly Priority[] = ['critical', 'high', 'normal', 'low']
