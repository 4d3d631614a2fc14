import type { Request, RequestHandler } from 'express'
import { Problem } from './problems.ts'

export interface Account {
  readonly id: string
  readonly tier: 'free' | 'premium'
}

/** The account table by API key. A Map will do, and so will a database. */
export interface Accounts {
  get(apiKey: string): Account | undefined | Promise<Account | undefined>
}

/** A request, once it is known who sends it. */
export interface Call extends Request {
  account?: Account
}

export const demoAccounts: Accounts = new Map([
  ['demo-free', { id: 'ann', tier: 'free' }],
  ['demo-premium', { id: 'bob', tier: 'premium' }],
])

/** Asks the table on every request, so that a change of tier holds from the next one on. */
export function identify(accounts: Accounts): RequestHandler {
  return async function identify(req: Call, _res, next) {
    const header = req.get('authorization')
    if (header === undefined) return next()
    const key = /^Bearer +(\S+)$/i.exec(header)?.[1]
    const account = key === undefined ? undefined : await accounts.get(key)
    if (account === undefined) throw new Problem(401, 'This API key is not known here.')
    req.account = account
    next()
  }
}

export const needsAccount: RequestHandler = (req: Call, _res, next) => {
  if (req.account === undefined) throw new Problem(401, 'Send your API key as Authorization: Bearer.')
  next()
}
