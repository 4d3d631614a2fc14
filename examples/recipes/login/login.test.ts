import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { tally } from '../seen.ts'
import { app } from './login.ts'

test('the door stays closed for longer each time, and the right password in time opens it', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

async function start() {
  const clock = fakeClock()
  let tried = 0
  const isRight = async (account: string, password: unknown) => {
    tried++
    await new Promise((resolve) => setImmediate(resolve)) // stands for a slow hash
    return account === 'ann' && password === 'open sesame'
  }
  const guarded = app(isRight, { clock })
  guarded.set('trust proxy', 1)
  const url = await urlOf(guarded.listen(0, '127.0.0.1'))
  const login = (password: string, account = 'ann', from = '203.0.113.1') =>
    fetch(`${url}/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': from },
      body: JSON.stringify({ account, password }),
    })
  return { login, clock, tried: () => tried }
}

test('right passwords cost nothing, and a right one forgets the misses', async () => {
  const { login } = await start()
  expect(await tally(50, () => login('open sesame'))).toEqual({ 200: 50 })
  for (let i = 0; i < 20; i++) {
    expect(await tally(2, () => login('wrong'))).toEqual({ 401: 2 })
    expect((await login('open sesame')).status).toBe(200)
  }
})

test('one address gets thirty guesses at an account in a day, whatever it does', async () => {
  const { login, clock, tried } = await start()
  for (let minute = 0; minute < 24 * 60; minute += 5) {
    await login('wrong')
    await login('wrong')
    clock.advance(5 * 60_000 - 1)
  }
  expect(tried()).toBeLessThanOrEqual(30)
  expect(tried()).toBeGreaterThan(20)
})

test('forty guesses at once are no way around: few reach the password', async () => {
  const { login, tried } = await start()
  await Promise.all(Array.from({ length: 40 }, (_, i) => login(`guess ${i}`)))
  expect(tried()).toBeGreaterThan(0)
  expect(tried()).toBeLessThanOrEqual(3)
})

test('a hundred addresses get a hundred guesses at an account, and one address a hundred at all accounts', async () => {
  const { login } = await start()
  expect(await tally(102, (i) => login('wrong', 'ann', `198.51.100.${i}`))).toEqual({ 401: 100, 429: 2 })
  expect(await tally(102, (i) => login('wrong', `account-${i}`))).toEqual({ 401: 100, 429: 2 })
})

test('nothing tells whether an account exists: status, fields and bodies are the same', async () => {
  const { login } = await start()
  const told = async (account: string) => {
    const answers: unknown[] = []
    for (let i = 0; i < 5; i++) {
      const response = await login('wrong', account, account === 'ann' ? '203.0.113.1' : '203.0.113.2')
      const { date: _, ...headers } = Object.fromEntries(response.headers)
      answers.push([response.status, headers, await response.text()])
    }
    return answers
  }
  expect(await told('ann')).toEqual(await told('who'))
})

test('an account is the same in any spelling', async () => {
  const { login } = await start()
  expect(await tally(6, (i) => login('wrong', i % 2 === 0 ? 'Ann' : 'aNN'))).toEqual({ 401: 3, 429: 3 })
})
