import { useState } from 'preact/hooks'
import { Field, Note } from './ui.tsx'

export function Login({
  complaint,
  onToken,
}: {
  readonly complaint: string | undefined
  readonly onToken: (token: string) => void
}) {
  const [token, setToken] = useState('')
  const submit = (event: Event) => {
    event.preventDefault()
    if (token.trim() !== '') onToken(token.trim())
  }
  return (
    <main class="login">
      <h1>Headgate</h1>
      {complaint !== undefined && <Note tone="bad">{complaint}</Note>}
      <form onSubmit={submit}>
        <Field
          label="Admin token"
          hint="HEADGATE_ADMIN_TOKEN of the service, or HEADGATE_ADMIN_READ_TOKEN to look and not change. If none is set, the service prints one when it starts. It is kept in this tab only."
        >
          {(id) => (
            <input
              id={id}
              type="password"
              autocomplete="off"
              spellcheck={false}
              value={token}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          )}
        </Field>
        <button type="submit" class="strong" disabled={token.trim() === ''}>
          Log in
        </button>
      </form>
    </main>
  )
}
