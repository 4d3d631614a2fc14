import { type IncomingMessage, ServerResponse } from 'node:http'

/** Where Node makes the text of a head: the status line, then its fields. */
interface Storing {
  _storeHeader(first: string, fields: unknown): void
  readonly _header?: string | null
}
const { _storeHeader: store } = ServerResponse.prototype as unknown as Storing

/**
 * A response whose head takes lines as they are. Node checks each field by two expressions and compares its name with those that it
 * minds itself; for the six that tell of limits that takes as long as the decision. Lines are for whoever knows that they need no
 * check: each ends with CRLF, none is a field that Node minds.
 */
export class LinedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  lines = ''

  _storeHeader(first: string, fields: unknown): void {
    store.call(this as unknown as Storing, first + this.lines, fields)
  }
}

const isHeard = probe()

/** Whether lines of this response are sent: a Node that makes heads in another way does not ask for them. */
export function takesLines(response: object): response is LinedResponse {
  return isHeard && response instanceof LinedResponse
}

function probe(): boolean {
  const response = new LinedResponse({ method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 } as IncomingMessage)
  response.lines = 'x-probe: 1\r\n'
  try {
    response.writeHead(200, ['x-last', '2'])
  } catch {
    return false
  }
  return /^HTTP\/1\.1 200 OK\r\nx-probe: 1\r\nx-last: 2\r\n/.test((response as unknown as Storing)._header ?? '')
}
