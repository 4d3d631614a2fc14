import type { Policy, View } from './algorithm.ts'

/** Everything fits and nothing is remembered. A policy of its own, so that a key without a limit can still be blocked. */
export const unlimited: Policy = {
  algorithm: 'unlimited',
  limit: Infinity,
  words: 1,
  shape: 'unlimited',
  waitUs: () => 0,
  book: () => {},
  giveBack: () => undefined,
  windowUs: () => 0,
  share: () => unlimited,
  twin: () => ['unlimited'],
  look(_state, _at, _nowUs, view: View) {
    view.remaining = Infinity
    view.resetUs = 0
    view.growUs = 0
  },
  used: () => 0,
  idleAtUs: () => 0,
}
