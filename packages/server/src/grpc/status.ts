/** Of gRPC, those that are answered here. */
export const grpcCodes = {
  OK: 0,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const
export type GrpcCode = keyof typeof grpcCodes

/** Ends a call with something else than an answer. */
export class GrpcError extends Error {
  override readonly name = 'GrpcError'
  readonly code: GrpcCode

  constructor(code: GrpcCode, message: string) {
    super(message)
    this.code = code
  }
}

/** The fields that a call ends with. */
export function statusFields(code: GrpcCode, message = ''): Record<string, string> {
  const status = { 'grpc-status': String(grpcCodes[code]) }
  return message === '' ? status : { ...status, 'grpc-message': percent(message) }
}

/** What is not plain ASCII is told by its bytes, and so is the sign for that. */
function percent(message: string): string {
  return message.replaceAll(/[^\x20-\x24\x26-\x7e]/gu, (each) =>
    [...Buffer.from(each)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
}
