import type { ModeName, Protocol } from 'headgate/testing'

/** In the order in which they promise less. */
export const modes: Readonly<Record<ModeName, string>> = {
  central: 'The store is asked each time.',
  'quick-deny': 'The store is asked, and refusals are remembered until they end.',
  lease: 'Gateways borrow units and spend them without asking.',
  'lease-strict': 'As lease, and a lease counts only when a copy of the store knows of it.',
  'region-lease': 'As lease, from a store in a region where no gateway is.',
  shards: 'Hot keys are split into parts.',
  'static-share': 'Each gateway has its part of the limit.',
  'degraded-local': 'While the store cannot be asked, each gateway counts its part.',
  'degraded-allow': 'While the store cannot be asked, everything passes.',
  sync: 'Gateways decide at once and tell each other afterwards.',
  regions: 'Regions decide at once and tell each other afterwards.',
}

export const lending: readonly string[] = ['lease', 'lease-strict', 'region-lease'] satisfies ModeName[]

export const protocols: Readonly<Record<Protocol, string>> = {
  right: 'as it is',
  'debit-only': 'mistake: what is lent comes back while it is out',
  'deadline-from-reply': 'mistake: a holder counts from the answer',
  'resent-return': 'mistake: a message that comes again gives back again',
  'expires-first': 'mistake: units are taken for spent while their holder may spend them',
}
