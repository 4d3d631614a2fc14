import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Controller, Get, HttpException, type INestApplication } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { afterEach, expect, test } from 'vitest'
import { createGate, memory, type Store } from '../index.ts'
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

class Listing {
  list() {
    return 'list'
  }
}
Get('list')(Listing.prototype, 'list', Object.getOwnPropertyDescriptor(Listing.prototype, 'list') as PropertyDescriptor)
@Limit({ limit: '1000/min' })
@Controller('books')
class BooksController extends Listing {}
@Limit({ limit: '2/min' })
@Controller('logins')
class LoginsController extends Listing {}
@Controller('plain')
class PlainController extends Listing {}

/** A store that is asked over a network. */
function slow(): Store {
  const inner = memory()
  return { run: async (groups, nowUs) => inner.run(groups, nowUs) }
}

async function start(module: object): Promise<string> {
  class Root {}
  const app = await NestFactory.create(
    {
      module: Root,
      imports: [module as never],
      controllers: [SearchController, BooksController, LoginsController, PlainController],
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

test('controllers that inherit a handler each have limits of their own, whichever is asked first', async () => {
  const url = await start(HeadgateModule.forRoot({ limit: '5000/min', clock: fakeClock() }))
  const asks = (controller: string) => fetch(new URL(`/${controller}/list`, url))
  expect((await asks('plain')).headers.get('ratelimit-policy')).toBe('"default";q=5000;w=60')
  expect((await asks('books')).headers.get('ratelimit-policy')).toBe('"books";q=1000;w=60, "default";q=5000;w=60')
  const statuses: number[] = []
  for (let i = 0; i < 3; i++) statuses.push((await asks('logins')).status)
  expect(statuses).toEqual([200, 200, 429])
})

test('a route may be left alone', async () => {
  const url = await start(HeadgateModule.forRoot({ limit: '1/min', clock: fakeClock() }))
  for (let i = 0; i < 3; i++) {
    const response = await fetch(`${url}/health`)
    expect(response.status).toBe(200)
    expect(response.headers.has('ratelimit')).toBe(false)
  }
})

test('onDenied may take its time, and may throw an exception of its own', async () => {
  const seen: string[] = []
  const waits = async () => {
    await new Promise((resolve) => setImmediate(resolve))
    seen.push('denied')
  }
  const throws = async () => {
    await waits()
    throw new HttpException('enough', 418)
  }
  for (const [onDenied, status] of [
    [waits, 429],
    [throws, 418],
  ] as const)
    for (const store of [undefined, slow()]) {
      const options = { limit: '1/min', ...(store && { store }), onDenied } as never
      const url = await start(HeadgateModule.forRoot(options))
      await fetch(`${url}/all`)
      expect((await fetch(`${url}/all`)).status).toBe(status)
    }
  expect(seen).toHaveLength(4)
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
