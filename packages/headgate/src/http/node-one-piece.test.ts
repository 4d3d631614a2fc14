import { once } from 'node:events'
import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { until } from '../../test/until.ts'
import { inOnePiece } from './node-one-piece.ts'

const InOnePiece = inOnePiece(ServerResponse)
const request = { method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 } as IncomingMessage

interface Waiting extends ServerResponse {
  readonly outputData: readonly { readonly data: string }[]
}

test('a small answer leaves with its head in one piece', () => {
  const response = new InOnePiece(request) as Waiting
  response.writeHead(200, ['content-length', '2']).end('ok')
  expect(response.outputData.map(({ data }) => data)).toEqual([expect.stringMatching(/^HTTP.*\r\n\r\nok$/s)])
})

test('a Node that sends in another way is left alone', () => {
  class Otherwise extends ServerResponse {
    override end(): this {
      return super.end('another')
    }
  }
  expect(inOnePiece(Otherwise)).toBe(Otherwise)
  expect(inOnePiece(InOnePiece)).toBe(InOnePiece)
})

type Told = (what: string) => void

/** One request, and what the server does with it. */
interface Scene {
  readonly method: string
  readonly isLate: boolean
  start(response: ServerResponse): unknown
  end(response: ServerResponse, told: Told): unknown
}

test(`answers are the same to the byte (HEADGATE_SEED=${seed})`, async () => {
  const below = randomBelow(seed)
  const pick = <T>(...values: T[]): T => values[below(values.length)] as T
  const body = () =>
    pick<string | Buffer>(
      'ok',
      'Gr\u00fc\u00dfe',
      '\ud800',
      'x'.repeat(150),
      '\u20ac'.repeat(150),
      '',
      Buffer.from([0, 255]),
    )
  const starts: (() => Scene['start'])[] = [
    () => () => {},
    () => (res) => res.setHeader('x-latin', 'caf\u00e9'),
    () => (res) => res.writeHead(200, 'Tr\u00e8s bien', { 'content-type': 'text/plain' }),
    () => by(pick(200, 204, 304), (status) => (res) => res.writeHead(status, { etag: 'e' })),
    () => by(body(), (text) => (res) => res.writeHead(200, { 'content-length': Buffer.byteLength(text) }).write(text)),
    () => by(body(), (text) => (res) => res.write(text)),
    () => (res) => res.writeHead(200, { trailer: 'x-end' }).addTrailers({ 'x-end': '1' }),
    () => (res) => res.flushHeaders(),
  ]
  const ends: (() => Scene['end'])[] = [
    () => (res) => res.end(),
    () => by(body(), (text) => (res) => res.end(text)),
    () => by(body(), (text) => (res) => res.end(text, null as never, null as never)),
    () => by(body(), (text) => (res, told) => res.end(text, () => told('done'))),
    () => by(body(), (text) => (res, told) => res.end(text, 'utf8', () => told('done'))),
    () => (res) => res.end('b2s=', 'base64'),
    () => (res) => res.end('caf\u00e9', 'latin1'),
    () => (res) => res.end('one').end('two'),
    () => (res) => res.end(7 as never),
  ]
  for (let i = 0; i < 100; i++) {
    const scenes = Array.from({ length: 6 }, () => ({
      method: pick('GET', 'HEAD'),
      isLate: below(3) === 0,
      start: pick(...starts)(),
      end: pick(...ends)(),
    }))
    expect(await play(scenes, InOnePiece)).toEqual(await play(scenes, ServerResponse))
  }
})

test('a text that follows one of the wrong length is sent', () => {
  const sent = [ServerResponse, InOnePiece].map((Responses) => {
    const response = new Responses(request)
    response.strictContentLength = true
    response.writeHead(200, { 'content-length': 5, date: 'now' })
    expect(() => response.end('four')).toThrow('content-length')
    response.write('fives')
    return (response as Waiting).outputData.map(({ data }) => data)
  })
  expect(sent[0]?.[0]).toMatch(/\r\n\r\nfives$/)
  expect(sent[1]).toEqual(sent[0])
})

/** All that a server sends on one connection, and what it noticed of each response. */
async function play(scenes: readonly Scene[], Responses: typeof ServerResponse): Promise<[string, string[][]]> {
  const noticed: string[][] = scenes.map(() => [])
  const server = createServer({ ServerResponse: Responses }, async (req, res) => {
    const scene = Number(req.url?.slice(1))
    const { isLate, start: begin, end } = scenes[scene] as Scene
    const told: Told = (what) => noticed[scene]?.push(what)
    for (const event of ['prefinish', 'finish', 'close']) res.once(event, () => told(event))
    res.on('error', (error: NodeJS.ErrnoException) => told(`error ${error.code}`))
    if (isLate) await new Promise(setImmediate)
    for (const act of [begin, end]) told(outcome(() => act(res, told) instanceof ServerResponse))
    if (!res.writableEnded) res.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('latin1')
  const head = ({ method }: Scene, i: number) => `${method} /${i} HTTP/1.1\r\nHost: a\r\n`
  socket.write(`${scenes.map(head).join('\r\n')}Connection: close\r\n\r\n`)
  let sent = ''
  for await (const piece of socket) sent += piece
  await until('the end of all responses', () => noticed.every((what) => what.includes('close')) || undefined)
  server.close()
  return [sent.replace(/^Date: .*\r$/gm, ''), noticed]
}

/** The same for both servers. */
function by<T, Act>(given: T, act: (given: T) => Act): Act {
  return act(given)
}

function outcome(act: () => unknown): string {
  try {
    return String(act())
  } catch (error) {
    return String((error as { code?: string }).code)
  }
}
