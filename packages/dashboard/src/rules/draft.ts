import type { Rules } from '../api.ts'

/** What somebody is writing. It outlives a look at another view, not the page. */
export interface Draft {
  readonly base: Rules
  readonly text: string
}

let kept: Draft | undefined

export const draft = {
  get kept(): Draft | undefined {
    return kept
  },
  keep(next: Draft | undefined): void {
    kept = next
  },
}

export function isEdited({ base, text }: Draft): boolean {
  return text !== base.text
}

/** The page asks before it goes while something is not saved. */
addEventListener('beforeunload', (event) => {
  if (kept !== undefined && isEdited(kept)) event.preventDefault()
})
