// npx tsx --tsconfig tsconfig.test.json examples/nest/app.ts: tsx has to be told of the decorators
// #region quick-start
import 'reflect-metadata'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { HeadgateGuard, HeadgateModule, Limit, SkipLimit } from 'headgate/nest'

@Controller()
class Site {
  @Get()
  hello(): string {
    return 'hello\n'
  }

  @Limit({ limit: '3/min' }) // and that of the module: both are one decision
  @Get('search')
  search(): object {
    return { results: [] }
  }

  @SkipLimit()
  @Get('health')
  health(): object {
    return { up: true }
  }
}

@Module({
  imports: [HeadgateModule.forRoot({ limit: '100/min' })], // per client address
  providers: [{ provide: APP_GUARD, useExisting: HeadgateGuard }],
  controllers: [Site],
})
export class App {}
// #endregion

if (process.argv[1] === import.meta.filename) await (await NestFactory.create(App)).listen(3000)
