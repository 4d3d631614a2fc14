import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from 'headgate'
import type { Environment, Rules } from '../config/index.ts'
import type { Service } from '../service.ts'
import type { Telemetry } from '../telemetry/index.ts'
import type { Audit, AuditSink } from './audit.ts'
import type { Events } from './events.ts'
import type { Mask } from './mask.ts'
import type { Recent } from './recent.ts'
import type { AdminTokens } from './tokens.ts'

/** Rules that somebody sent, found good. */
export interface RulesChange {
  readonly rules: Rules
  /** As they were sent. */
  readonly text: string
  /** Who sent them. */
  readonly origin: string
  /** The generation that the sender has seen, if it said so: whoever applies them should do so only on top of that one. */
  readonly expected: number | undefined
}

export interface Readiness {
  /** Only `ready` gets requests. */
  readonly state: 'ready' | 'starting' | 'draining'
}

export interface AdminOptions {
  readonly telemetry: Telemetry
  readonly tokens: AdminTokens
  /** Gets a line of JSON for each change. */
  readonly audit?: AuditSink
  /** Reads the rules file again; rejects with a RulesError where that is wrong. */
  readonly reload?: () => Promise<unknown>
  /** Applies rules, here or in the whole fleet; throws a RulesConflict where others came first. Without it they hold here. */
  readonly putRules?: (change: RulesChange) => Promise<unknown>
  /** The rules in force as they were written. */
  readonly rulesText?: () => string | undefined
  readonly ready?: () => Readiness
  /** What wins over rules that are sent. */
  readonly environment?: Environment
  /** How much one address may ask. A wrong token costs as much as twenty requests. */
  readonly limit?: string
  /** For the hashes of masked keys; random unless said otherwise. */
  readonly maskSecret?: string
  /** For what is not the admin's, such as the dashboard. */
  readonly otherwise?: (req: IncomingMessage, res: ServerResponse) => void
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
}

/** What routes work with. */
export interface Desk {
  readonly service: Service
  readonly options: AdminOptions
  readonly telemetry: Telemetry
  readonly audit: Audit
  readonly mask: Mask
  readonly events: Events
  readonly recent: Recent
  /** By the clock that exceptions end by. */
  nowMs(): number
}
