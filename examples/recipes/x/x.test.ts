import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { printed } from '../../printed.ts'
import { tally } from '../seen.ts'
import { api } from './x.ts'

test('a caller is told its window in fields of the style of X, and is refused until it is over', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

const url = 'http://localhost/2/users/1'
const known = api(
  (request) => {
    const user = request.headers.get('x-user') ?? undefined
    return user === 'stranger' ? undefined : { app: 'reader', ...(user !== undefined && { user }) }
  },
  { clock: fakeClock() },
)
const as = (user: string | undefined, to = url, method = 'GET') =>
  known(new Request(to, { method, headers: user === undefined ? {} : { 'x-user': user } }))

test('users do not use up what the app has, nor each other, nor one endpoint another', async () => {
  expect(await tally(310, () => as('ann'))).toEqual({ 200: 300, 429: 10 })
  expect(await tally(460, () => as(undefined))).toEqual({ 200: 450, 429: 10 })
  expect((await as('bob')).status).toBe(200)
  expect((await as('ann', `${url}/tweets`)).status).toBe(200)
  expect((await as('ann', url, 'POST')).status).toBe(200)
  expect((await as('ann', `${url}?page=2`)).status).toBe(429)
})

test('a token that nobody issued is turned away before it is counted', async () => {
  expect((await as('stranger')).status).toBe(401)
})
