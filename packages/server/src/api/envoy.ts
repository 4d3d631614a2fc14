import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Decider, Unavailable } from '../rls/decide.ts'
import { requestOf, responseOf } from '../rls/json.ts'
import { BadRequest } from '../rls/messages.ts'
import type { Service } from '../service.ts'
import { sendJson } from './answer.ts'
import { readJson } from './body.ts'
import { Refusal } from './problem.ts'

/** `POST /json`: what Envoy asks by gRPC, as JSON. 200 is OK, 429 is over the limit. */
export async function answerEnvoy(
  req: IncomingMessage,
  res: ServerResponse,
  service: Service,
  decider: Decider,
  maxBodyBytes: number,
): Promise<void> {
  const json = await readJson(req, res, maxBodyBytes)
  if (json === undefined) return
  const { response, undo } = await attempt(() => decider.decide(service.rules.envoy, requestOf(json), Infinity))
  if (res.destroyed) undo()
  else sendJson(res, response.overallCode === 'OK' ? 200 : 429, responseOf(response))
}

/** Those who ask this way know no other codes. */
async function attempt<T>(act: () => T | Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (error instanceof BadRequest) throw new Refusal(400, 'invalid_value', `${error.message}.`)
    if (error instanceof Unavailable) throw new Refusal(500, 'HG_STORE_FAILED', 'The store does not answer. Try again.')
    throw error
  }
}
