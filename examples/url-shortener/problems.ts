import { STATUS_CODES } from 'node:http'
import type { ErrorRequestHandler, RequestHandler } from 'express'

/** What is wrong with a request, for its sender to read. */
export class Problem extends Error {
  readonly status: number

  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

export function allowOnly(methods: string): RequestHandler {
  return (req, res) => {
    res.set('Allow', methods)
    throw new Problem(405, `${req.method} is not for this address.`)
  }
}

export const notFound: RequestHandler = () => {
  throw new Problem(404, 'There is nothing here.')
}

/** Errors of Express, its parsers and the rate limiter have a status too; what has none is our fault and nobody else's business. */
export const tellProblem: ErrorRequestHandler = (error: { status?: number; message?: string }, _req, res, next) => {
  if (res.headersSent) return next(error)
  const status = error.status ?? 500
  if (status >= 500) console.error(error)
  if (status === 401) res.set('WWW-Authenticate', 'Bearer')
  const detail = status < 500 ? error.message : 'It is our fault. Please try again later.'
  res.status(status).type('application/problem+json')
  res.json({ type: 'about:blank', title: STATUS_CODES[status], status, detail })
}
