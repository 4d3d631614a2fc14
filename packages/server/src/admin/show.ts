import type { KeptBlock, KeptOverride, ServiceEvent } from '../service.ts'
import type { Mask } from './mask.ts'

/** An exception as others may see it. */
export function shown<T extends KeptBlock | KeptOverride>(kept: T, mask: Mask, reveal = false): object {
  const { key, ...rest } = kept
  return { ...rest, key: mask.key(key, reveal), until: new Date(kept.untilMs).toISOString() }
}

export function shownEvent(event: ServiceEvent, mask: Mask): object {
  const { type: _, ...rest } = event
  switch (event.type) {
    case 'override':
      return { ...rest, override: shown(event.override, mask) }
    case 'block':
      return { ...rest, block: shown(event.block, mask) }
    case 'reset':
      return { ...rest, key: mask.key(event.key) }
    default:
      return rest
  }
}
