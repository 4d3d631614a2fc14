import { NestFactory } from '@nestjs/core'
import { expect, onTestFinished, test } from 'vitest'
import { App } from './app.ts'

async function start(): Promise<string> {
  const app = await NestFactory.create(App, { logger: false })
  onTestFinished(() => app.close())
  await app.listen(0, '127.0.0.1')
  return app.getUrl()
}

test('the module limits all routes but those that are left out', async () => {
  const url = await start()
  expect((await fetch(url)).headers.get('ratelimit')).toBe('"default";r=99;t=1')
  expect((await fetch(`${url}/health`)).headers.has('ratelimit')).toBe(false)
})

test('a route adds a limit of its own, decided with that of the module as one', async () => {
  const url = await start()
  for (let i = 0; i < 3; i++) expect((await fetch(`${url}/search`)).status).toBe(200)
  const denied = await fetch(`${url}/search`)
  expect(denied.status).toBe(429)
  expect(denied.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(await denied.json()).toMatchObject({ limit: 'site-search', 'violated-policies': ['site-search'] })
  const left = /"default";r=(\d+)/.exec((await fetch(url)).headers.get('ratelimit') ?? '')?.[1]
  expect(Number(left), 'the refusal was charged nowhere').toBeGreaterThanOrEqual(96)
})

test('a caller may ask what is left without spending', async () => {
  const url = await start()
  await fetch(url)
  for (let i = 0; i < 5; i++) {
    const { rate } = (await (await fetch(`${url}/rate_limit`)).json()) as { rate: { remaining: number } }
    expect(rate.remaining).toBeGreaterThanOrEqual(99)
  }
})
