import type { Clock } from '../clock.ts'
import { Admission } from './admission.ts'
import { checkedOptions } from './options.ts'
import type { Overload, OverloadOptions, Utilisation, UtilisationOptions } from './types.ts'
import { createUtilisation } from './utilisation.ts'

type MakeUtilisation = (options: UtilisationOptions, clock: Clock | undefined) => Utilisation

/** Lets in as much work as this process can do, the most important first. */
export function createOverload(options: OverloadOptions = {}): Overload {
  return overloadWith(options, createUtilisation)
}

export function overloadWith(options: OverloadOptions, makeUtilisation: MakeUtilisation): Overload {
  const checked = checkedOptions(options)
  const { utilisation, clock } = checked
  return new Admission(checked, utilisation && makeUtilisation(utilisation, clock))
}
