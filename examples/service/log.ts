/** A line for a person where the command `headgate serve` writes JSON. */
function say(fields: object, message: string): void {
  const { generation, changed, reason } = fields as { generation?: number; changed?: string[]; reason?: string }
  const more =
    generation === undefined ? reason : `generation ${generation}, changed: ${changed?.join(', ') || 'nothing'}`
  console.log(`${new Date().toTimeString().slice(0, 8)} ${message}${more === undefined ? '' : `: ${more}`}`)
}

export const log = { info: say, warn: say, error: say, debug() {} }
