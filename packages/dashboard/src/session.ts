import { tokenIn } from './token-link.ts'

const NAME = 'headgate-token'

/** The token is kept for this tab until it is closed, and is in no address. */
export const session = {
  get token(): string | undefined {
    return sessionStorage.getItem(NAME) ?? undefined
  },
  keep(token: string): void {
    sessionStorage.setItem(NAME, token)
  },
  forget(): void {
    sessionStorage.removeItem(NAME)
  },
  /** Moves a token from the address to where it is kept: neither the address bar nor the history has it any more. */
  adopt(): void {
    const token = tokenIn(location.hash)
    if (token === undefined) return
    session.keep(token)
    history.replaceState(null, '', `${location.pathname}#/`)
  },
}
