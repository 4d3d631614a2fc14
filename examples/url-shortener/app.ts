import express, { type Express, type RequestHandler } from 'express'
import { type Accounts, identify, needsAccount } from './accounts.ts'
import { type Counting, limits } from './limits.ts'
import { addLink, isCode, type Link, type Links } from './links.ts'
import { allowOnly, notFound, Problem, tellProblem } from './problems.ts'
import { targetOf } from './target.ts'

export interface AppOptions extends Counting {
  readonly links: Links
  readonly accounts: Accounts
}

const GET = 'GET, HEAD'

// #region routes
export function createApp({ links, accounts, ...counting }: AppOptions): Express {
  const app = express().disable('x-powered-by').enable('case sensitive routing')
  const limit = limits(counting)
  const who = identify(accounts)
  const { create, redirect, stats } = handlers(links)

  app.route('/rate_limit').get(who, limit.status).all(allowOnly(GET))
  // The limit comes last, so that a request that cannot succeed is charged nothing. It costs us one small parse.
  app
    .route('/shorten')
    .post(who, needsAccount, express.json({ limit: '8kb' }), checkTarget, limit, create)
    .all(allowOnly('POST'))
  // Here it comes first: who guesses codes pays for the wrong ones too.
  app.route('/:code').get(limit, redirect).all(allowOnly(GET))
  app.route('/:code/stats').get(limit, stats).all(allowOnly(GET))
  app.use(notFound, tellProblem)
  return app
}
// #endregion

const checkTarget: RequestHandler = (req, _res, next) => {
  req.body = { url: targetOf(req.body) }
  next()
}

function handlers(links: Links): Record<'create' | 'redirect' | 'stats', RequestHandler> {
  return {
    async create(req, res) {
      const { url } = req.body as Pick<Link, 'url'>
      const code = await addLink(links, { url, createdAt: new Date().toISOString() })
      // No host: the one in the request is whatever its sender wrote there.
      res.status(201).location(`/${code}`).json({ code, url })
    },
    async redirect(req, res) {
      const { code, link } = await linkOf(req.params.code)
      await links.visit(code)
      // Not for ever, and not from a cache: visits are counted here.
      res.set('Cache-Control', 'no-store').redirect(302, link.url)
    },
    async stats(req, res) {
      const { code, link } = await linkOf(req.params.code)
      res.json({ code, ...link, visits: await links.visits(code) })
    },
  }

  async function linkOf(code: unknown): Promise<{ code: string; link: Link }> {
    const link = isCode(code) ? await links.find(code) : undefined
    if (!isCode(code) || link === undefined) throw new Problem(404, 'There is no such link.')
    return { code, link }
  }
}
