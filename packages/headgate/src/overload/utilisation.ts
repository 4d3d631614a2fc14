import type { Clock } from '../clock.ts'
import type { Utilisation, UtilisationOptions } from './types.ts'

/** As the given `measure` says, without shedding. */
export function createUtilisation(options: UtilisationOptions, _clock: Clock | undefined): Utilisation {
  let mode = options.mode ?? 'enforce'
  return {
    get value() {
      return options.measure?.() ?? 0
    },
    get mode() {
      return mode
    },
    shedding: () => 0,
    sheds: () => false,
    tune(tuning) {
      mode = tuning.mode ?? mode
    },
    close() {},
    slots: undefined,
  }
}
