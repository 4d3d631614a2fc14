import { render } from 'preact'
import { App } from './app.tsx'
import { session } from './session.ts'

session.adopt()
// A link with a token may be followed while the page is open.
addEventListener('hashchange', () => {
  const before = session.token
  session.adopt()
  if (session.token !== before) location.reload()
})
const root = document.getElementById('app') as HTMLElement
root.textContent = ''
render(<App />, root)
