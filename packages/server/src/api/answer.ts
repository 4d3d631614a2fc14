import type { ServerResponse } from 'node:http'
import type { Decided } from '../rules/rule-set.ts'
import { refusalOf } from './problem.ts'

type Fields = Readonly<Record<string, string>>

export function sendJson(res: ServerResponse, status: number, body: unknown, headers: Fields = {}): void {
  send(res, status, 'application/json', JSON.stringify(body), headers)
}

export function sendRefusal(res: ServerResponse, error: unknown): void {
  const { problem, headers } = refusalOf(error)
  send(res, problem.status, 'application/problem+json', JSON.stringify(problem), headers)
}

/** Answers, unless there is nobody to answer any more. */
export function send(res: ServerResponse, status: number, type: string, body: string, headers: Fields = {}): void {
  if (res.headersSent || res.destroyed) return
  const length = Buffer.byteLength(body)
  const about = status === 204 ? {} : { 'Content-Type': type, 'Content-Length': length }
  res.writeHead(status, { ...about, 'Cache-Control': 'no-store', ...headers })
  res.end(status === 204 ? undefined : body)
}

/** Gives back what was taken for somebody who went away before hearing of it. */
export function giveBackUnlessTold(res: ServerResponse, decisions: readonly Decided[]): void {
  const giveBack = () => {
    if (res.writableFinished) return
    for (const decision of decisions) {
      void decision.release()
      void decision.refund()
    }
  }
  if (res.closed || res.destroyed) giveBack()
  else if (decisions.length > 0) res.once('close', giveBack)
}
