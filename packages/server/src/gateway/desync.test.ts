import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { randomBy, seed } from '../../../headgate/test/random.ts'
import { idle, startGateway, startRaw, startUpstream } from '../../test/gateway.ts'

console.log(`whose answer: HEADGATE_SEED=${seed}`)

type Random = () => number

/** An answer that says whose it is again and again, in one of the ways in which an answer can come. */
function answerFor(id: string, random: Random): string {
  const body = `${id};`.repeat(1 + Math.floor(random() ** 4 * 20_000))
  const early = random() < 0.1 ? 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n' : ''
  const close = random() < 0.05 ? 'Connection: close\r\n' : ''
  const head = `${early}HTTP/1.1 200 OK\r\nX-Id: ${id}\r\n${close}`
  const way = random()
  if (way < 0.5) return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
  if (way < 0.55) return `${early}HTTP/1.1 204 No Content\r\nX-Id: ${id}\r\n\r\n`
  const chunks = body.match(/.{1,3000}/g) as string[]
  const text = chunks.map((chunk) => `${chunk.length.toString(16)};a="b"\r\n${chunk}\r\n`).join('')
  return `${head}Transfer-Encoding: chunked\r\n\r\n${text}0\r\n${random() < 0.5 ? `X-Sum: ${id}\r\n` : ''}\r\n`
}

/** In the same breath as an answer; what comes later nobody can tell from the next one. */
const NOBODYS = 'HTTP/1.1 200 OK\r\nX-Id: nobody\r\nContent-Length: 7\r\n\r\nnobody;'
const ONE_BREATH_BYTES = 1000

/** Says it in pieces with pauses, now and then not to its end, and now and then more than that. */
async function tell(socket: Socket, text: string, random: Random): Promise<void> {
  const mood = random()
  const end = mood < 0.05 ? Math.floor(random() * text.length) : text.length
  if (mood > 0.95 && end < ONE_BREATH_BYTES) {
    socket.write(text + NOBODYS)
    return
  }
  for (let at = 0; at < end && !socket.destroyed; ) {
    const next = random() < 0.5 ? end : Math.min(end, at + 1 + Math.floor(random() ** 3 * text.length))
    socket.write(text.slice(at, next))
    at = next
    if (at < end) await sleep(random() * 3)
  }
  if (mood < 0.05) socket.destroy()
  else if (mood < 0.08) socket.end()
}

/** Answers what it hears, whatever Node would say; a body, too, must be of the request that it came with. */
function upstreamFor(random: Random, mixed: string[]) {
  return (req: IncomingMessage): void => {
    const id = req.url?.slice(1) as string
    const isHasty = random() < 0.1
    const answer = () => void tell(req.socket, answerFor(id, random), random)
    if (isHasty) answer() // without having heard the body
    let body = ''
    req.on('error', () => {}).on('data', (chunk) => (body += chunk))
    req.on('end', () => {
      if (body.replaceAll(`${id};`, '') !== '') mixed.push(`${id}: ${body.slice(0, 100)}`)
      if (!isHasty) answer()
    })
  }
}

interface End {
  readonly id: string
  readonly status: number
  readonly heard: string
  readonly complete: boolean
}

function wander(url: string, id: string, agent: Agent, random: Random): Promise<End> {
  return new Promise((resolve) => {
    const method = ['GET', 'POST', 'PUT', 'HEAD'][Math.floor(random() * 4)] as string
    const body = method.startsWith('P') ? `${id};`.repeat(1 + Math.floor(random() ** 2 * 10_000)) : ''
    const length = random() < 0.5 && body !== '' ? { 'Content-Length': body.length } : {}
    const asked = request(`${url}/${id}`, { method, agent, headers: length })
    let status = 0
    let heard = ''
    let complete = false
    asked.on('error', () => {}).on('close', () => resolve({ id, status, heard, complete }))
    asked.on('response', (response) => {
      status = response.statusCode ?? 0
      heard = `${response.headers['x-id'] ?? ''};`
      response.on('error', () => {}).on('data', (chunk) => (heard += chunk))
      response.on('end', () => (complete = true))
      if (random() < 0.1) asked.destroy()
      else if (random() < 0.2) {
        response.pause()
        setTimeout(() => response.resume(), random() * 10)
      }
    })
    if (random() < 0.1) setTimeout(() => asked.destroy(), random() * 15)
    if (body !== '') asked.write(body.slice(0, body.length / 2))
    setTimeout(() => asked.end(body.slice(body.length / 2)), random() < 0.3 ? random() * 5 : 0)
  })
}

/** All that it heard is its own; the last word may be cut off with the rest. */
function isOwn({ id, heard, complete }: End): boolean {
  const words = heard.split(';')
  const last = words.pop()
  return words.every((word) => word === id) && (last === '' || !complete)
}

test('nobody ever hears a word of an answer that is for another', async () => {
  const random = randomBy(seed)
  const mixed: string[] = []
  const upstreams = await Promise.all([0, 1].map(() => startUpstream(upstreamFor(random, mixed))))
  for (const { server } of upstreams) server.on('connection', (socket) => socket.on('error', () => {}))
  const gateway = await startGateway({ to: [{ name: 'all', urls: upstreams.map(({ url }) => url) }] })
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  let answered = 0
  for (let round = 0; round < 8; round++) {
    const ids = Array.from({ length: 120 }, (_, i) => `r${round}n${i}`)
    const ends = await Promise.all(ids.map((id) => wander(gateway.url, id, agent, random)))
    const fine = ends.filter(({ status }) => status === 200 || status === 204)
    expect(fine.filter((end) => !isOwn(end))).toEqual([])
    answered += fine.filter(({ complete }) => complete).length
  }
  agent.destroy()
  await idle(gateway)
  expect(mixed).toEqual([])
  expect(answered).toBeGreaterThan(300)
}, 60_000)

const chunked = `Transfer-Encoding: chunked\r\n\r\n1000\r\n${'x'.repeat(4095)}!\r\n0\r\n\r\n`
const expecting = `Content-Length: 1\r\nExpect: 100-continue\r\n\r\n!`
const long = (bytes: number) => `Content-Length: ${bytes}\r\n\r\n${'x'.repeat(bytes - 1)}!`

test.each([
  ['1 byte', long(1), '!'],
  ['5 KB', long(5_000), '!'],
  ['20 KB', long(20_000), '!'],
  ['chunks', chunked, '!\r\n0\r\n\r\n'],
  ['somebody who expects to be told to go on', expecting, '!'],
])('what an upstream says before it is asked is no answer to %s, and the question is put again', async (...row) => {
  const [, rest, end] = row
  const sockets: Socket[] = []
  const upstream = await startRaw((socket) => {
    sockets.push(socket)
    let heard = ''
    socket.on('data', (chunk) => {
      heard += chunk
      if (!heard.endsWith(end)) return
      const early = heard.includes('Expect: ') ? 'HTTP/1.1 100 Go\r\n\r\n' : ''
      heard = ''
      socket.write(`${early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`)
    })
  })
  const gateway = await startGateway({ to: upstream.url })
  const client = connect(gateway.port, '127.0.0.1')
  onTestFinished(() => void client.destroy())
  const ask = async () => {
    client.write(`POST / HTTP/1.1\r\nHost: a\r\n${rest}`)
    let answer = ''
    while (!answer.includes('\r\n\r\nok')) answer += (await once(client, 'data'))[0]
    return /HTTP\/1.1 [2-5].*/.exec(answer)?.[0]
  }
  expect(await ask()).toBe('HTTP/1.1 200 OK')
  for (let i = 0; i < 30; i++) {
    // Both are there when the gateway looks again, in either order.
    const timeOut = () => sockets.at(-1)?.write('HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\n\r\nok')
    if (i % 2 === 0) timeOut()
    const answer = ask()
    if (i % 2 === 1) timeOut()
    expect(await answer).toBe('HTTP/1.1 200 OK')
  }
  expect(sockets).toHaveLength(31)
  await idle(gateway)
})
