import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('operations are charged what they cost, and what is too large is not even read', async () => {
  await expect(await printed(() => import('./graphql.ts'))).toMatchFileSnapshot('output.txt')
})

test('the same gate stands before every server, and a cost can be worked out without any', async () => {
  const { apollo, onGraphqlHttp, mercuriusApp, costs } = await import('./servers.ts')
  expect(costs).toEqual([31, 'HG_QUERY_TOO_DEEP'])
  const { body } = await apollo.executeOperation(
    { query: '{ books(first: 2) { title } }' },
    { contextValue: { key: 'ann' } },
  )
  expect(body).toMatchObject({ singleResult: { extensions: { cost: { requested: 3, actual: 1 } } } })
  const app = await mercuriusApp
  const answer = await app.inject({
    method: 'POST',
    url: '/graphql',
    headers: { 'x-api-key': 'ann' },
    payload: { query: '{ books(first: 2) { title } }' },
  })
  expect(answer.json()).toMatchObject({ extensions: { cost: { requested: 3, actual: 1 } } })
  await app.close()
  const request = {
    method: 'POST',
    url: '/graphql',
    headers: { 'content-type': 'application/json', 'x-api-key': 'ann' },
  }
  const [text] = await onGraphqlHttp({
    ...request,
    body: { query: '{ books(first: 2) { title } }' },
    raw: undefined,
    context: undefined,
  })
  expect(JSON.parse(String(text))).toMatchObject({ extensions: { cost: { requested: 3, actual: 1 } } })
})
