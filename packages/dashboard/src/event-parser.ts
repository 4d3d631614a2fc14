export interface ServerEvent {
  readonly id?: string
  readonly event: string
  readonly data: string
}

/** Server-sent events, as they come in pieces. */
export class EventParser {
  #rest = ''

  push(text: string): ServerEvent[] {
    const blocks = (this.#rest + text).split('\n\n')
    this.#rest = blocks.pop() ?? ''
    return blocks.flatMap((block) => {
      const event = eventOf(block)
      return event === undefined ? [] : [event]
    })
  }
}

/** Undefined: a comment. */
function eventOf(block: string): ServerEvent | undefined {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    const at = line.indexOf(':')
    if (at <= 0) continue
    const [name, value] = [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')]
    const before = fields.get(name)
    fields.set(name, before === undefined ? value : `${before}\n${value}`)
  }
  const [id, event = 'message', data] = [fields.get('id'), fields.get('event'), fields.get('data')]
  return data === undefined ? undefined : { ...(id !== undefined && { id }), event, data }
}
