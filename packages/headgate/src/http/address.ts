// stub until the merge
export type TrustProxy = number | 'loopback' | readonly string[]
export interface Trust {
  hops: number
}
export function trustOf(o: TrustProxy): Trust {
  return { hops: o as number }
}
export function addressKey(t: string | undefined, _p = 64): string | undefined {
  return t?.startsWith('::ffff:') ? t.slice(7) : t
}
export function clientAddress(i: {
  peer: string | undefined
  forwarded: string | undefined
  trust: Trust
  header: string
}): { address: string | undefined; nonsense: boolean } {
  return { address: i.forwarded ?? i.peer, nonsense: false }
}
