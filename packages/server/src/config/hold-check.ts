import type { Hold } from 'headgate'
import type { Finding } from './problem.ts'
import type { Rules } from './schema.ts'

/** Limits that are to be held in a way that their store does not have. */
export function holdFindings(limits: Rules['limits'], holds: readonly Hold[]): Finding[] {
  return Object.entries(limits).flatMap(([name, { hold = 'central' }]): Finding[] => {
    if (hold === 'central' || holds.includes(hold)) return []
    return [
      {
        code: 'HG_RULES_CONFLICT',
        path: ['limits', name, 'hold'],
        reason: `the store has no way "${hold}" to hold limits; it has ${['central', ...holds].join(', ')}`,
        suggestion: `give the store "${hold}", or leave it out`,
      },
    ]
  })
}
