import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Controller, Get, type INestApplication } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { afterEach, expect, test } from 'vitest'
import { createGate } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { HeadgateGuard, HeadgateModule, Limit, SkipLimit } from './nest.ts'

const running: INestApplication[] = []
afterEach(async () => {
  for (const app of running.splice(0)) await app.close()
})

class SearchController {
  findAll() {
    return 'all'
  }
  find() {
    return 'one'
  }
  health() {
    return 'fine'
  }
}
const method = (name: 'findAll' | 'find' | 'health', ...decorators: MethodDecorator[]) => {
  const descriptor = Object.getOwnPropertyDescriptor(SearchController.prototype, name) as PropertyDescriptor
  for (const each of decorators) each(SearchController.prototype, name, descriptor)
}
method('findAll', Get('all'), Limit({ limit: '2/min' }))
method('find', Get('one'), Limit('heavy', { limit: '3/min' }), Limit('tiny', { limit: '10/min', by: 'ip' }))
method('health', Get('health'), SkipLimit())
Controller('search')(SearchController)

async function start(module: object): Promise<string> {
  class Root {}
  const app = await NestFactory.create(
    {
      module: Root,
      imports: [module as never],
      controllers: [SearchController],
      providers: [{ provide: APP_GUARD, useExisting: HeadgateGuard }],
    },
    { logger: false },
  )
  running.push(app)
  await app.listen(0, '127.0.0.1')
  return `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}/search`
}

test('a limit of a route is decided with those of the module, and both count across routes', async () => {
  const url = await start(HeadgateModule.forRoot({ limit: '5/min', clock: fakeClock() }))
  const all = await fetch(`${url}/all`)
  expect(all.headers.get('ratelimit')).toBe('"search-find-all";r=1;t=30, "default";r=4;t=12')
  const one = await fetch(`${url}/one`)
  expect(one.headers.get('ratelimit-policy')).toBe('"default";q=5;w=60, "heavy";q=3;w=60, "tiny";q=10;w=60')
  expect(one.headers.get('ratelimit')).toBe('"default";r=3;t=12, "heavy";r=2;t=20, "tiny";r=9;t=6')
  await fetch(`${url}/all`)
  const denied = await fetch(`${url}/all`)
  expect(denied.status).toBe(429)
  expect(await denied.json()).toMatchObject({ 'violated-policies': ['search-find-all'] })
  expect((await fetch(`${url}/one`)).headers.get('x-ratelimit-remaining')).toBe('1')
})

test('a route may be left alone', async () => {
  const url = await start(HeadgateModule.forRoot({ limit: '1/min', clock: fakeClock() }))
  for (let i = 0; i < 3; i++) {
    const response = await fetch(`${url}/health`)
    expect(response.status).toBe(200)
    expect(response.headers.has('ratelimit')).toBe(false)
  }
})

test('options may come from a factory', async () => {
  const useFactory = async () => ({ limits: { ip: { limit: '7/min', by: 'ip' } }, clock: fakeClock() }) as const
  const url = await start(HeadgateModule.forRootAsync({ useFactory }))
  expect((await fetch(`${url}/all`)).headers.get('ratelimit')).toBe('"search-find-all";r=1;t=30, "ip";r=6;t=9')
})

test('a gate made before cannot take more limits in, and says so', async () => {
  const url = await start(HeadgateModule.forRoot({ gate: createGate({ limit: '5/min' }) }))
  expect((await fetch(`${url}/all`)).status).toBe(500)
  expect((await fetch(`${url}/health`)).status).toBe(200)
})
