import { afterEach, expect, test, vi } from 'vitest'
import { Endpoint } from './endpoint.ts'

const told: boolean[] = []
let nowMs = 1_000

function endpointOf(url: string): Endpoint {
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  return new Endpoint({ name: 'a', urls: [url] }, url, (_, healthy) => told.push(healthy))
}

afterEach(() => {
  vi.restoreAllMocks()
  told.length = 0
})

const probe = (endpoint: Endpoint) => {
  expect(endpoint.isAvailable()).toBe(true)
  endpoint.enter()
  endpoint.leave()
}

test('takes an endpoint out at the third connection in a row that fails, for a second', () => {
  const endpoint = endpointOf('http://a.test')
  endpoint.connectFailed()
  endpoint.connectFailed()
  endpoint.connected()
  endpoint.connectFailed()
  endpoint.connectFailed()
  expect(endpoint.healthy).toBe(true)
  endpoint.connectFailed()
  expect([endpoint.healthy, endpoint.isAvailable()]).toEqual([false, false])
  nowMs += 999
  expect(endpoint.isAvailable()).toBe(false)
  nowMs += 1
  expect(endpoint.isAvailable()).toBe(true)
  expect(told).toEqual([false])
})

test('lets one request try an endpoint that is out, and waits twice as long after each that fails, half a minute at most', () => {
  const endpoint = endpointOf('http://a.test')
  for (let i = 0; i < 100; i++) endpoint.connectFailed() // many at once are one failure
  for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    nowMs += pauseMs - 1
    expect(endpoint.isAvailable()).toBe(false)
    nowMs += 1
    probe(endpoint)
    expect(endpoint.isAvailable()).toBe(false)
    endpoint.connectFailed()
  }
  nowMs += 30_000
  probe(endpoint)
  endpoint.connected()
  expect([endpoint.healthy, endpoint.isAvailable()]).toEqual([true, true])
  expect(told).toEqual([false, true])
})

test('tries again after a probe of which nothing was heard', () => {
  const endpoint = endpointOf('http://a.test')
  for (let i = 0; i < 3; i++) endpoint.connectFailed()
  nowMs += 1_000
  probe(endpoint)
  nowMs += 1_000
  expect(endpoint.isAvailable()).toBe(true)
})

test('brings an endpoint back that passes its checks', () => {
  const endpoint = endpointOf('http://a.test')
  for (let i = 0; i < 3; i++) endpoint.connectFailed()
  endpoint.checked(false)
  expect(endpoint.isAvailable()).toBe(false)
  endpoint.checked(true)
  expect(endpoint.isAvailable()).toBe(true)
  expect(told).toEqual([false, true])
})
