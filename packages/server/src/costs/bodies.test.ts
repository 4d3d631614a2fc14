import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { queryObjects } from 'node:v8'
import { CallerLeft } from 'headgate/http'
import { expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { type Connection, dial } from '../../test/connection.ts'
import { ends } from '../../test/service.ts'
import { Bodies, type BodiesOptions } from './bodies.ts'
import { BodyFault } from './fault.ts'

interface Reader {
  readonly bodies: Bodies
  /** How each read ended, in order. */
  readonly ended: string[]
  readonly answers: ServerResponse[]
  dial(): Promise<Connection>
}

async function reader(options: BodiesOptions, isNeeded = true): Promise<Reader> {
  const bodies = new Bodies(options)
  const [ended, answers]: [string[], ServerResponse[]] = [[], []]
  const handle = (req: IncomingMessage, res: ServerResponse) => {
    answers.push(res)
    bodies.read(req, res, isNeeded).then(
      (body) => ended.push(`read ${body?.length}`),
      (error) => ended.push(error instanceof BodyFault ? error.code : error instanceof CallerLeft ? 'left' : 'broken'),
    )
  }
  const server = ends(createServer(handle), (each) => each.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { bodies, ended, answers, dial: () => dial((server.address() as AddressInfo).port) }
}

function buffers(): number {
  return queryObjects(Buffer) as number
}

function head(length: number): string {
  return `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`
}

test('what is held of all bodies together has a bound, and is free again when requests are answered', async () => {
  const { bodies, ended, answers, dial } = await reader({ maxBytes: 600, maxHeldBytes: 1000 })
  const [one, two, three] = [await dial(), await dial(), await dial()]
  one.say(head(600) + 'a'.repeat(600))
  await until('the first', () => ended.length === 1 || undefined)
  expect(bodies.heldBytes).toBe(600)
  two.say(head(500))
  await until('the second', () => ended.length === 2 || undefined)
  three.say('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  three.say(`1f4\r\n${'a'.repeat(500)}\r\n`)
  await until('the third', () => ended.length === 3 || undefined)
  expect(ended).toEqual(['read 600', 'overloaded', 'overloaded'])
  for (const res of answers) res.end()
  await until('all to be free', () => bodies.heldBytes === 0 || undefined)
  two.end()
  const again = await dial()
  again.say(head(500) + 'a'.repeat(500))
  await until('it to be read', () => ended[3])
  expect(ended[3]).toBe('read 500')
})

test('a body in tiny chunks takes no more memory than its bytes, and all that it takes is counted', async () => {
  const { bodies, ended, answers, dial } = await reader({ maxBytes: 100_000, maxHeldBytes: 100_000 })
  const [line, other] = [await dial(), await dial()]
  const before = buffers()
  line.say(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\n \r\n'.repeat(40_000)}`)
  await until('most of it', () => bodies.heldBytes >= 40_000 || undefined)
  expect(buffers() - before).toBeLessThan(1_000)
  line.say('0\r\n\r\n')
  await until('all of it', () => ended[0])
  expect(ended).toEqual(['read 40000'])
  expect(buffers() - before).toBeLessThan(1_000)
  expect(bodies.heldBytes).toBe(65_536) // as it was made larger, twice each time
  other.say(head(40_000)) // would fit beside what was sent, and not beside what that takes
  await until('the other', () => ended[1])
  expect(ended[1]).toBe('overloaded')
  for (const res of answers) res.end()
  await until('all to be free', () => bodies.heldBytes === 0 || undefined)
})

test('a client that stops in the middle is not waited for', async () => {
  const { ended, dial } = await reader({ maxBytes: 600, stallMs: 20 })
  const line = await dial()
  line.say(`${head(500)}some`)
  await until('it to be given up', () => ended[0])
  expect(ended).toEqual(['request_timeout'])
})

test('of one that leaves in the middle nothing is held', async () => {
  const { bodies, ended, dial } = await reader({ maxBytes: 600 })
  const line = await dial()
  line.say(`${head(500)}some`)
  await until('something to be held', () => bodies.heldBytes === 4 || undefined)
  line.end()
  await until('it to be noticed', () => ended[0])
  expect(ended).toEqual(['left'])
  await until('nothing to be held', () => bodies.heldBytes === 0 || undefined)
})

test('a body that need not be known and is too large is not touched, or put back', async () => {
  const { ended, answers, dial } = await reader({ maxBytes: 600 }, false)
  const line = await dial()
  line.say(head(700))
  await until('the first', () => ended[0])
  line.say('a'.repeat(700))
  const [first] = answers as [ServerResponse]
  expect(Buffer.concat(await first.req.toArray()).length).toBe(700)
  const other = await dial()
  other.say('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  for (const letter of 'abc') other.say(`12c\r\n${letter.repeat(300)}\r\n`)
  await until('the second', () => ended[1])
  other.say('1\r\nd\r\n0\r\n\r\n')
  const [, second] = answers as [ServerResponse, ServerResponse]
  const body = Buffer.concat(await second.req.toArray()).toString()
  expect(body).toBe(`${'a'.repeat(300)}${'b'.repeat(300)}${'c'.repeat(300)}d`)
  expect(ended).toEqual(['read undefined', 'read undefined'])
})

test('what was put back is held until somebody takes it, not for as long as an upload goes on', async () => {
  const { bodies, ended, answers, dial } = await reader({ maxBytes: 600, maxHeldBytes: 1000 }, false)
  const line = await dial()
  line.say('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  line.say(`12c\r\n${'a'.repeat(300)}\r\n`)
  await until('some of it', () => bodies.heldBytes === 300 || undefined)
  line.say(`190\r\n${'b'.repeat(400)}\r\n`)
  await until('it to be put back', () => ended[0])
  expect(bodies.heldBytes).toBe(300)
  const [first] = answers as [ServerResponse]
  let bytes = 0
  first.req.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  first.req.resume()
  await until('it to be taken', () => bytes === 700 || undefined)
  expect(bodies.heldBytes).toBe(0)
  line.say('1\r\nc\r\n')
  await until('it to go on', () => bytes === 701 || undefined)
  first.end()
  await until('the end', () => first.closed || undefined)
  expect(bodies.heldBytes).toBe(0)
})
