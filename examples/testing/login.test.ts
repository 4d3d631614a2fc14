// #region test
import { createGate } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { login } from './login.ts'

test('locks an account after five wrong passwords and opens it to the millisecond', () => {
  const clock = fakeClock()
  const gate = createGate({ limit: '5/min strict', clock })
  for (let attempt = 0; attempt < 5; attempt++) expect(login(gate, 'ann', false)).toBe('wrong password')

  expect(login(gate, 'ann', true)).toBe('locked for 66000 ms')
  clock.advance(65_999)
  expect(login(gate, 'ann', true)).toBe('locked for 1 ms')
  clock.advance(1)
  expect(login(gate, 'ann', true)).toBe('welcome')
})
// #endregion

// #region wait
test('serves a waiter when its time has come, without waiting for it', async () => {
  const clock = fakeClock()
  const gate = createGate({ limit: '10/min burst 1', clock })
  gate.take('ann')
  const turn = gate.wait('ann')
  clock.advance(6_000)
  expect((await turn).ok).toBe(true)
})
// #endregion
