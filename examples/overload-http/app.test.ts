import { expect, test } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import { urlOf } from '../serving.ts'
import { start } from './app.ts'

test('payments pass while slow requests take what is theirs, and slots come back from those who leave', async () => {
  const { server, overload } = start()
  const url = await urlOf(server)
  const leaving = new AbortController()
  const slow = Array.from({ length: 3 }, () => fetch(`${url}/slow`, { signal: leaving.signal }).catch(() => undefined))
  await until('as many as fit', () => overload.state().inFlight === 3 || undefined)
  expect(await (await fetch(`${url}/pay/1`)).text()).toBe('paid')
  const shed = await fetch(`${url}/slow`)
  expect(shed.status).toBe(503)
  expect(await shed.json()).toMatchObject({ code: 'overloaded', priority: 'normal' })
  leaving.abort()
  await Promise.all(slow)
  await until('free slots', () => overload.state().inFlight === 0 || undefined)
})
