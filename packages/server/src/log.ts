import { type Level, pino } from 'pino'

/** What the service logs to: pino, or nothing in tests. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  debug(fields: object, message: string): void
}

export const noLog: Log = { info() {}, warn() {}, error() {}, debug() {} }

export function createLog(level: Level | 'silent'): Log {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime })
}
