// A process that can do four things at once: reports of a batch job flood it, and payments go through.
import { setTimeout } from 'node:timers/promises'
import { createOverload, type Work } from 'headgate/overload'

const query = (name: string) => setTimeout(20, `${name}: done`)

// #region overload
const overload = createOverload({ concurrency: 4, queue: { size: 2 } }) // without `concurrency` it finds out how much fits

async function handle(name: string, work: Work): Promise<string> {
  const ticket = await overload.enter(work)
  if (!ticket.ok) return `${name}: 503, ${ticket.reason}` // and Retry-After, from ticket.retryAfterMs
  try {
    const result = await query(name)
    ticket.done()
    return result
  } catch (error) {
    ticket.done('drop') // a timeout or a 503: there was too much of it; 'ignore' what says nothing about that
    throw error
  }
}
// #endregion

// #region flood
const reports = [1, 2, 3, 4, 5].map((n) => handle(`report ${n}`, { priority: 'low', caller: 'batch' }))
const payment = handle('payment', { priority: 'critical' }) // finds the slot that the others leave free
const visit = handle('visit', { priority: 'low', caller: 'shop' }) // the queue is full, of reports: one has to go
// #endregion

for (const line of await Promise.all([payment, visit, ...reports])) console.log(line)
overload.close()
