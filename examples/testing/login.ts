import type { Gate } from 'headgate'

// #region login
/** Five wrong passwords a minute per account; a right one costs nothing. */
export function login(gate: Gate<string>, account: string, passwordIsRight: boolean): string {
  const decision = gate.take(account)
  if (!decision.ok) return `locked for ${decision.retryAfterMs} ms`
  if (!passwordIsRight) return 'wrong password'
  decision.refund()
  return 'welcome'
}
// #endregion
