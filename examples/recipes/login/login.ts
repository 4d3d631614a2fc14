// Passwords: few guesses, a door that stays closed for longer each time, and nothing told about who has an account.
import express, { type Request } from 'express'
import { createGate, type GateOptions } from 'headgate'
import { headgate } from 'headgate/express'
import { addressKey } from 'headgate/http'

const GUESSES = 30
const account = (req: Request) => String(req.body?.account ?? '').toLowerCase()
const address = (req: Request) => addressKey(req.ip) // IPv6 by its first 64 bits
const pair = (req: Request) => [address(req) ?? '', account(req)]
const failed = ({ status }: { status: number }) => status === 401

/** `isRight` takes as long for an account that does not exist: compare with the hash of some other password. */
export function app(isRight: (account: string, password: unknown) => Promise<boolean>, counting: GateOptions = {}) {
  const gate = createGate({
    limits: {
      pair: { limit: `${GUESSES}/day`, algorithm: 'fixed-window', align: 'first-hit', by: pair, countWhen: failed },
      account: { limit: '100/day', by: account, countWhen: failed }, // one account, from many addresses
      address: { limit: '100/h', by: address, countWhen: failed }, // many accounts, from one address
      trying: { atOnce: 1, by: pair }, // so that many guesses at once are no way around
    },
    ...counting,
  })
  const message = { error: 'Too many attempts. Wait a while, or reset your password.' }
  const guard = headgate({ gate, headers: [], message }) // Retry-After, and nothing else

  /** Every third miss of a day closes the door: for a minute, then two, then four. */
  async function missed(req: Request): Promise<void> {
    const { remaining } = await gate.peekKey('pair', pair(req))
    const misses = GUESSES - remaining + 1 // this one is counted once it is answered
    if (misses % 3 === 0) await gate.block('pair', pair(req), 60_000 * 2 ** (misses / 3 - 1))
  }

  return express().post('/login', express.json(), guard, async (req, res) => {
    if (await isRight(account(req), req.body.password)) {
      await gate.reset('pair', pair(req))
      res.json({ welcome: account(req) })
    } else {
      await missed(req)
      res.status(401).json({ error: 'Account or password is wrong.' }) // the same for both
    }
  })
}
