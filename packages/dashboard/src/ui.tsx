import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ApiError } from './api.ts'
import type { Resource } from './hooks.ts'

interface Children {
  readonly children?: ComponentChildren
}

export function Panel({
  title,
  aside,
  children,
}: Children & { readonly title?: string; readonly aside?: ComponentChildren }) {
  return (
    <section class="panel">
      {title !== undefined && (
        <header class="panel-head">
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  )
}

export function Pill({
  tone = 'plain',
  title,
  children,
}: Children & { readonly tone?: string; readonly title?: string }) {
  return (
    <span class={`pill ${tone}`} title={title}>
      {children}
    </span>
  )
}

interface NoteProps extends Children {
  readonly tone?: 'plain' | 'warn' | 'bad' | 'good'
  /** To be read out when it comes, and when it changes. */
  readonly isNews?: boolean
}

export function Note({ tone = 'plain', isNews = true, children }: NoteProps) {
  return (
    <div class={`note ${tone}`} role={!isNews ? undefined : tone === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  )
}

/** What went wrong, in the words of the service where it has some. */
export function Failure({ error }: { readonly error: Error | undefined }) {
  if (error === undefined) return null
  return <Note tone="bad">{wordsOf(error)}</Note>
}

export function wordsOf(error: Error): string {
  if (error instanceof ApiError || !(error instanceof TypeError)) return error.message
  return 'The service does not answer.'
}

/** Loading, failed, or there. */
export function Loaded<T>({
  of,
  children,
}: {
  readonly of: Resource<T>
  readonly children: (data: T) => ComponentChildren
}) {
  const { data, error } = of
  if (data === undefined) return error === undefined ? <p class="empty">Loading …</p> : <Failure error={error} />
  return (
    <>
      {error !== undefined && <Note tone="warn">These figures are old: {wordsOf(error)}</Note>}
      {children(data)}
    </>
  )
}

export function Field({
  label,
  hint,
  children,
}: {
  readonly label: string
  readonly hint?: string
  readonly children: (id: string) => ComponentChildren
}) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint !== undefined && <small>{hint}</small>}
    </div>
  )
}

/** A choice of few, as a row of buttons. */
export function Choice<T extends string>({
  label,
  value,
  options,
  onChange,
  disabled = false,
}: {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [value: T, text: string])[]
  readonly onChange: (value: T) => void
  readonly disabled?: boolean
}) {
  const name = useId()
  return (
    <fieldset class="choice" disabled={disabled}>
      <legend class="hidden">{label}</legend>
      {options.map(([option, text]) => (
        <label key={option} class={option === value ? 'chosen' : ''}>
          <input type="radio" name={name} checked={option === value} onChange={() => onChange(option)} />
          {text}
        </label>
      ))}
    </fieldset>
  )
}

/** Asks before something is done that cannot be undone. */
export function Sure({
  button,
  title,
  children,
  onSure,
  tone = 'bad',
}: Children & {
  readonly button: string
  readonly title: string
  readonly onSure: () => void
  readonly tone?: string
}) {
  const [isOpen, setOpen] = useState(false)
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  useEffect(() => {
    if (isOpen) dialog.current?.showModal()
  }, [isOpen])
  return (
    <>
      <button type="button" class={tone} onClick={() => setOpen(true)}>
        {button}
      </button>
      {isOpen && (
        <dialog ref={dialog} onClose={() => setOpen(false)} aria-labelledby={heading}>
          <h2 id={heading}>{title}</h2>
          {children}
          <div class="row end">
            <button type="button" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
            <button
              type="button"
              class={`${tone} strong`}
              onClick={() => {
                dialog.current?.close()
                onSure()
              }}
            >
              {button}
            </button>
          </div>
        </dialog>
      )}
    </>
  )
}

export function Copy({ text, label }: { readonly text: string; readonly label: string }) {
  const [isDone, setDone] = useState(false)
  // Browsers have none where a page came without TLS from elsewhere.
  if (navigator.clipboard === undefined) return null
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    setDone(true)
    setTimeout(() => setDone(false), 1_500)
  }
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      {isDone ? 'Copied' : label}
    </button>
  )
}
