import type { Worker } from 'node:cluster'
import type { OverloadTuning } from 'headgate/overload'
import type { LimitMode } from '../rules/rule-set.ts'
import type { KeptBlock, KeptOverride, Service, ServiceEvent } from '../service.ts'
import type { Report, Telemetry } from '../telemetry/index.ts'

/** What a worker is told: all there is when it starts, then each change. */
type Told =
  | { readonly headgate: 'state'; readonly state: State }
  | { readonly headgate: 'change'; readonly event: ServiceEvent; readonly text?: string }

/** What a worker says. */
type Said =
  | { readonly headgate: 'hello' }
  | { readonly headgate: 'report'; readonly report: Report }
  | { readonly headgate: 'news'; readonly event: ServiceEvent & { readonly type: 'breaker' } }

interface State {
  readonly generation: number
  /** Of rules that were put; absent: those of the file hold. */
  readonly text?: string
  readonly modes: readonly (readonly [limit: string, mode: LimitMode])[]
  readonly tuning: OverloadTuning
  readonly overrides: readonly KeptOverride[]
  readonly blocks: readonly KeptBlock[]
}

/** Something that holds a service and can make other rules hold. */
export interface Member {
  readonly service: Service
  readonly telemetry: Telemetry
  /** Of rules that were put. */
  readonly text: string | undefined
  /** Makes rules hold: those of a text, or of the file. */
  use(text: string | undefined, origin: string, generation: number): void
}

const REPORT_MS = 1_000

/** In the primary: hears what a worker counted and tells it what changes: at once, also while the store that all share is away. */
export function tellWorker(worker: Worker, member: Member): void {
  const { service, telemetry } = member
  const tell = (message: Told) => {
    if (worker.isConnected()) worker.send(message, () => {})
  }
  worker.on('message', (message: Said | null) => {
    if (message?.headgate === 'report') telemetry.absorb(worker.id, message.report)
    if (message?.headgate === 'news') service.tell({ ...message.event, worker: worker.id })
    if (message?.headgate === 'hello') tell({ headgate: 'state', state: stateOf(member) })
  })
  const unwatch = service.watch({
    onEvent: (event) => {
      const { text } = member
      if (event.type !== 'breaker') tell({ headgate: 'change', event, ...(text !== undefined && { text }) })
    },
  })
  worker.once('disconnect', () => {
    unwatch()
    telemetry.forget(worker.id)
  })
}

function stateOf({ service, text }: Member): State {
  const { overrides, blocks, modes } = service
  return {
    generation: service.rules.generation,
    ...(text !== undefined && { text }),
    modes: [...modes],
    tuning: service.overloadSettings.tuning,
    overrides,
    blocks,
  }
}

/** In a worker: resolves once it knows what the primary knows, and keeps up from then on. */
export function followPrimary(member: Member): Promise<void> {
  const say = (message: Said) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {})
  }
  const timer = setInterval(() => say({ headgate: 'report', report: member.telemetry.report() }), REPORT_MS)
  timer.unref()
  member.service.watch({
    onEvent: (event) => {
      if (event.type === 'breaker') say({ headgate: 'news', event })
    },
  })
  // A worker whose primary is gone would count for itself, with nobody to stop it.
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  return new Promise((resolve) => {
    process.on('message', (message: Told | null) => {
      if (message?.headgate === 'state') {
        enter(member, message.state)
        resolve()
      } else if (message?.headgate === 'change') {
        const { event, text } = message
        safely(member, () => follow(member, event, text))
      }
    })
    say({ headgate: 'hello' })
  })
}

function enter(member: Member, { generation, text, modes, tuning, overrides, blocks }: State): void {
  const { service } = member
  if (text !== undefined || generation !== service.rules.generation)
    safely(member, () => member.use(text, 'primary', generation))
  for (const [limit, mode] of modes) safely(member, () => service.setMode(limit, mode))
  if (Object.keys(tuning).length > 0) safely(member, () => service.setTuning(tuning))
  for (const override of overrides) service.knowOverride(override)
  for (const block of blocks) service.knowBlock(block)
}

/** A file that was saved twice may be read between the two: the last good rules hold until the next change. */
function safely(member: Member, change: () => void): void {
  try {
    change()
  } catch (error) {
    member.service.tell({ type: 'rules-refused', origin: 'primary', reason: String(error) })
  }
}

function follow(member: Member, event: ServiceEvent, text: string | undefined): void {
  const { service } = member
  if (event.type === 'rules') member.use(text, event.origin, event.generation)
  else if (event.type === 'mode') service.setMode(event.limit, event.mode)
  else if (event.type === 'overload') service.setTuning(event.tuning)
  else if (event.type === 'override') {
    if (event.lifted) service.liftOverride(event.override.id)
    else service.knowOverride(event.override)
  } else if (event.type === 'block') {
    if (event.lifted) service.forgetBlock(event.block.id)
    else service.knowBlock(event.block)
  }
}
