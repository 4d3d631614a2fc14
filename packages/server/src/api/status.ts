import type { IncomingMessage } from 'node:http'
import { type StatusBody, statusBody } from 'headgate/http'
import type { Service } from '../service.ts'
import { sentRequest } from './incoming.ts'

/** The caller's limits, without spending: those that would concern a `GET` of this path, or what the query names as `method` and
 *  `path`. */
export async function statusOfCaller(req: IncomingMessage, { rules }: Service): Promise<StatusBody> {
  const { url = '' } = req
  const start = url.indexOf('?')
  const query = new URLSearchParams(start < 0 ? '' : url.slice(start))
  const incoming = sentRequest(req, { method: query.get('method') ?? 'GET', url: query.get('path') ?? url })
  return statusBody(await rules.peek(rules.callerOf(incoming)))
}
