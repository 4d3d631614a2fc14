import type { ServerResponse } from 'node:http'
import type { NextFunction, Request, Response } from 'express'
import type { Reader, WarnOnce } from './identity.ts'
import { type NodeMiddleware, nodeMiddleware, nodeReader } from './node.ts'
import type { Headgate, HttpOptions } from './options.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message, TrustProxy, Word } from './options.ts'

/** For Express 4 and 5. */
export const headgate: Headgate<
  Request,
  [req: Request, res: Response, next: NextFunction],
  NodeMiddleware<Request, Response, NextFunction>
> = (options: object) =>
  nodeMiddleware(options as HttpOptions<Request, never[]>, reader) as NodeMiddleware<Request, ServerResponse>

const reader: Reader<Request> = {
  ...(nodeReader as Reader<never>),
  known: (req, warnOnce) => knownAddress(req, warnOnce),
  url: (req) => req.originalUrl,
  // Express gives every request a shape of its own, which one property more would copy as a whole.
  carrier: (req) => req.rawHeaders,
  route: (req) => (typeof req.route?.path === 'string' ? req.baseUrl + req.route.path : undefined),
}

/** What Express makes of its own setting `trust proxy`, unless that trusts whatever a client says. */
export function knownAddress(req: Request, warnOnce: WarnOnce): string | undefined {
  const setting: unknown = req.app?.settings?.['trust proxy']
  if (setting === undefined || setting === false) return undefined
  if (setting !== true) return req.ip
  warnOnce(
    'HG_TRUST_EVERYTHING',
    `'trust proxy' is true, so any client may choose its address: the connection's is used. Say how many proxies there are`,
  )
  return undefined
}
