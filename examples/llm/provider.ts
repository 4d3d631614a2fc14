// Stands in for a provider: answers as OpenAI and Anthropic do, over real sockets. What the prompt says is what it does.
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'

interface Call {
  readonly model: string
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
  readonly messages: readonly { readonly content: string }[]
}

/** Words of an answer by what is asked: `12 words`; each is three tokens of this provider's. */
function wordsIn({ messages }: Call): number {
  return Number(/(\d+) words/.exec(messages.at(-1)?.content ?? '')?.[1] ?? 2)
}

export interface Provider extends Server {
  /** Calls that were given up before their end. */
  givenUp: number
}

export function provider(): Provider {
  const server = createServer(async (req, res) => {
    const call = (await json(req)) as Call
    const prompt = call.messages.at(-1)?.content ?? ''
    res.on('close', () => {
      if (!res.writableEnded) made.givenUp++
    })
    if (prompt.includes('error')) return void answer(res, 500, { error: { message: 'The server had an error' } })
    if (prompt.includes('unplug')) return void req.socket.destroy()
    res.setHeader('x-ratelimit-remaining-requests', '4999')
    const words = wordsIn(call)
    if (req.url === '/v1/messages') return void anthropic(res, call, prompt, words)
    if (call.stream !== true) return void answer(res, 200, { choices: [], usage: chatUsage(words) })
    await chat(res, call, prompt, words)
  })
  const made = Object.assign(server, { givenUp: 0 })
  return made
}

const chatUsage = (words: number) => ({ prompt_tokens: 9, completion_tokens: words * 3, total_tokens: 9 + words * 3 })

function answer(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function chat(res: ServerResponse, call: Call, prompt: string, words: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const say = (event: object) => res.write(`data: ${JSON.stringify(event)}\n\n`)
  await speak(res, prompt, words, (content) => say({ choices: [{ index: 0, delta: { content } }], usage: null }))
  if (res.destroyed) return
  if (call.stream_options?.include_usage) say({ choices: [], usage: chatUsage(words) })
  res.end('data: [DONE]\n\n')
}

async function anthropic(res: ServerResponse, call: Call, prompt: string, words: number): Promise<void> {
  const output_tokens = words * 3
  if (call.stream !== true) return answer(res, 200, { usage: { input_tokens: 9, output_tokens } })
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const say = (event: { type: string } & Record<string, unknown>) =>
    res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  say({ type: 'message_start', message: { usage: { input_tokens: 9, output_tokens: 1 } } })
  await speak(res, prompt, words, (text) => say({ type: 'content_block_delta', delta: { type: 'text_delta', text } }))
  if (res.destroyed) return
  say({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens } })
  say({ type: 'message_stop' })
  res.end()
}

/** Nine letters each, which are three tokens by their bytes. Asked to pause, it says nothing more after the first half. */
async function speak(
  res: ServerResponse,
  prompt: string,
  words: number,
  say: (text: string) => boolean,
): Promise<void> {
  for (let i = 0; i < words && !res.destroyed; i++) {
    if (i === Math.ceil(words / 2) && prompt.includes('pause')) return void (await once(res, 'close'))
    if (!say('ninechars')) await once(res, 'drain')
  }
}
