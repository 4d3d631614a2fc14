// A core for what is measured, another for all else. Left to the system, the same server costs half as much again in one
// process as in the next, by where it and its load happen to run.
import { spawnSync } from 'node:child_process'

const MEASURED = '0'
const REST = '1'
/** Where there is `taskset`, and both are ours to use. */
const mayChoose = [MEASURED, REST].every((core) => spawnSync('taskset', ['-c', core, 'true']).status === 0)
let isMeasured = false

/** Puts a process, with all its threads and what it will start, where what is measured runs, or where all else does. Does nothing
 *  where cores cannot be chosen. */
export function keepTo(where: 'measured' | 'rest', pid = process.pid): void {
  if (!mayChoose) return
  if (pid === process.pid) isMeasured = where === 'measured'
  const core = where === 'measured' ? MEASURED : REST
  const { status, stderr } = spawnSync('taskset', ['-a', '-cp', core, String(pid)], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`taskset -a -cp ${core} ${pid}: ${stderr}`)
}

/** A command that runs beside what is measured, if that is this process. */
export function besides(command: string, args: readonly string[]): [command: string, args: string[]] {
  return isMeasured ? ['taskset', ['-c', REST, command, ...args]] : [command, [...args]]
}
