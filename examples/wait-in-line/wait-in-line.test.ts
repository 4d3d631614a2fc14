import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('waiters are served in order, nobody overtakes, and who gives up leaves no trace', async () => {
  const startMs = performance.now()
  await expect(await printed(() => import('./wait-in-line.ts'))).toMatchFileSnapshot('output.txt')
  // Three were sent, 100 ms apart; had the one who gave up kept its turn, the last would have gone at 300 ms.
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(195)
})
