import { useEffect, useRef } from 'preact/hooks'
import type { RulesProblem } from '../types.ts'

export interface Caret {
  readonly line: number
  readonly column: number
}

/** Where a line and column, from 1, are in a text. */
export function offsetOf(text: string, { line, column }: Caret): number {
  let at = 0
  for (let n = 1; n < line; n++) {
    const next = text.indexOf('\n', at)
    if (next < 0) return text.length
    at = next + 1
  }
  const end = text.indexOf('\n', at)
  return Math.min(at + column - 1, end < 0 ? text.length : end)
}

/** A text with line numbers, where lines with problems are marked. */
export function Editor({
  text,
  problems,
  caret,
  isReadOnly,
  onText,
}: {
  readonly text: string
  readonly problems: readonly RulesProblem[]
  /** To go to, whenever it is another object. */
  readonly caret: Caret | undefined
  readonly isReadOnly: boolean
  readonly onText: (text: string) => void
}) {
  const area = useRef<HTMLTextAreaElement>(null)
  const gutter = useRef<HTMLDivElement>(null)
  const marked = new Map(problems.map(({ line, severity }) => [line, severity]))
  const lines = text.split('\n').length
  useEffect(() => {
    const { current } = area
    if (caret === undefined || current === null) return
    const offset = offsetOf(text, caret)
    current.focus()
    current.setSelectionRange(offset, offset)
    current.scrollTop = Math.max(0, (caret.line - 5) * Number.parseFloat(getComputedStyle(current).lineHeight))
  }, [caret])
  return (
    <div class="editor">
      <div class="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, i) => (
          <span key={i} class={marked.get(i + 1) ?? ''}>
            {i + 1}
          </span>
        ))}
      </div>
      <textarea
        ref={area}
        aria-label="Rules"
        value={text}
        readOnly={isReadOnly}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
        rows={Math.min(32, Math.max(12, lines + 1))}
        onInput={(event) => onText(event.currentTarget.value)}
        onScroll={(event) => {
          if (gutter.current !== null) gutter.current.scrollTop = event.currentTarget.scrollTop
        }}
      />
    </div>
  )
}
