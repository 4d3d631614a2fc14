// For those who build servers of their own on the engine: what the middlewares are made of.

export { algorithmNames } from '../algorithms/algorithm.ts'
export {
  type Decision,
  headerLines,
  isFleet,
  isOverload,
  type LimitVisitor,
  type Retold,
  retold,
  shedDecision,
  visitLimits,
  writeHeaders,
} from '../decision.ts'
export { suggest } from '../errors.ts'
export type { KeyPart } from '../gate-types.ts'
export { type HeaderStyle, type HeaderWriter, headerWriter, type SetHeader, type Shortage } from '../headers/format.ts'
export { encodeParts, keyParts } from '../key.ts'
export { type Bytes, type BytesCost, bytesOf, bytesWords, type Meter, type Verdict } from '../metering.ts'
export { addressKey } from './address.ts'
export { Admission, type AdmissionOptions, outcomeOf } from './admission.ts'
export { bytesCost, declaredBytes } from './bytes.ts'
export { type Client, clientAddress, type ProxyHeader, type Trust, type TrustProxy, trustOf } from './client-address.ts'
export { type Answer, denial, statusOf } from './denial.ts'
export { claimOf, cookieOf, onlyOf, queryOf } from './identity.ts'
export { normalPath } from './path.ts'
export { CallerLeft, type Holding, holdBack, MOST_HELD, type Presence } from './presence.ts'
export { endWithConnection } from './queued.ts'
export { type StatusBody, statusBody } from './status.ts'
