/** A timer is due this often; that much later it may come on any machine. */
const EVERY_MS = 10

let lostMs = 0
let lastMs = performance.now()
let lastCpu = process.cpuUsage()
setInterval(look, EVERY_MS).unref()

/** Where the timer is late by more than this process has worked meanwhile, others had the machine. */
function look(): void {
  const nowMs = performance.now()
  const { user, system } = process.cpuUsage(lastCpu)
  const lateMs = nowMs - lastMs - EVERY_MS - (user + system) / 1000
  if (lateMs > EVERY_MS) lostMs += lateMs
  lastMs = nowMs
  lastCpu = process.cpuUsage()
}

/**
 * For promises of how long something takes at most: the milliseconds since it was made, without those in which this process was
 * kept from running. Work that takes too long, or an answer that does not come, is told in full.
 */
export function stopwatch(): () => number {
  look()
  const [startMs, lostBeforeMs] = [performance.now(), lostMs]
  return () => {
    look()
    return performance.now() - startMs - (lostMs - lostBeforeMs)
  }
}
