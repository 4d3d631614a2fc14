import { calendarCases, firstHitCases, fixedWindowCases, monthCases, weekCases } from './fixed-window.cases.ts'
import { gcraCases, unevenCases } from './gcra.cases.ts'
import { slidingLogCases } from './sliding-log.cases.ts'
import { slidingWindowCases } from './sliding-window.cases.ts'
import { strictWindowCases } from './strict-window.cases.ts'
import type { Cases } from './table.cases.ts'

/** What every store has to obey. */
export const tables: Readonly<Record<string, Cases>> = {
  gcra: gcraCases,
  'token-bucket': { ...gcraCases, options: { algorithm: 'token-bucket' } },
  'leaky-bucket': { ...gcraCases, options: { algorithm: 'leaky-bucket' } },
  'gcra, uneven rate': unevenCases,
  'fixed-window': fixedWindowCases,
  'fixed-window from the first hit': firstHitCases,
  'fixed-window by local day': calendarCases,
  'fixed-window by month': monthCases,
  'fixed-window by week': weekCases,
  'sliding-window': slidingWindowCases,
  'sliding-log': slidingLogCases,
  'strict-window': strictWindowCases,
}
