import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Admission } from 'headgate/http'
import { Bodies } from './costs/bodies.ts'
import type { HttpProxy } from './gateway/index.ts'
import type { Protection } from './overload/protection.ts'
import { type Hall, RequestPassage, UpgradePassage, type Visit } from './passage.ts'
import type { Service } from './service.ts'
import type { Spans } from './telemetry/index.ts'

/** Decides about every request before the upstream is touched, and tells callers their limits on every response. */
export class Gateway {
  #admission: { readonly of: Protection; readonly admission: Admission<Visit> } | undefined
  readonly #service: Service
  readonly #hall: Hall
  readonly #spans: Spans | undefined

  constructor(service: Service, proxy: HttpProxy, spans?: Spans) {
    const { maxReadBytes, maxBodyBytes = Infinity } = service.rules.rules.server
    const bodies = new Bodies({ maxBytes: Math.min(maxReadBytes, maxBodyBytes) })
    this.#hall = { proxy, bodies, maxReadBytes, onSpared: (priority) => service.shed(priority, 'upstream', false) }
    this.#service = service
    this.#spans = spans
    this.#admissionOf(service.protection) // from the start, so that it can be told of
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    const { rules, protection } = this.#service
    new RequestPassage(this.#hall, req, res, rules, this.#admissionOf(protection), this.#spans?.start(req)).start()
  }

  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => {}) // who leaves while being decided about is nobody's fault
    const { rules, protection } = this.#service
    const admission = this.#admissionOf(protection)
    const passage = new UpgradePassage(this.#hall, req, socket as Socket, rules, admission, this.#spans?.start(req))
    passage.head = head
    passage.start()
  }

  /** Protection is the same object as long as rules ask for it, and so is what lets in by it. */
  #admissionOf(protection: Protection | undefined): Admission<Visit> | undefined {
    if (protection === undefined) return undefined
    if (this.#admission?.of !== protection) this.#admission = { of: protection, admission: admissionBy(protection) }
    return this.#admission.admission
  }
}

function admissionBy(protection: Protection): Admission<Visit> {
  return new Admission<Visit>(
    {
      overload: protection,
      priority: ({ rules, caller }) => rules.priorityOf(caller),
      deadlineMs: ({ rules, caller }) => rules.deadlineMs(caller),
    },
    ({ rules, caller }) => rules.nameOf(caller),
    () => {},
  )
}
