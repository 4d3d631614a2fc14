// npx tsx --tsconfig tsconfig.test.json examples/nest/app.ts: tsx has to be told of the decorators
// #region quick-start
import 'reflect-metadata'
import { Controller, Get, Inject, Module, Req } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { Headgate, HeadgateGuard, HeadgateModule, Limit, type NestRequest, SkipLimit } from 'headgate/nest'

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

@SkipLimit()
@Controller('rate_limit')
class State {
  @Inject(Headgate) readonly headgate!: Headgate

  @Get()
  left(@Req() request: NestRequest): Promise<object> {
    return this.headgate.status(request)
  }
}

@Module({
  imports: [HeadgateModule.forRoot({ limit: '100/min' })], // per client address
  providers: [{ provide: APP_GUARD, useExisting: HeadgateGuard }],
  controllers: [Site, State],
})
export class App {}
// #endregion

if (process.argv[1] === import.meta.filename) await (await NestFactory.create(App)).listen(3000)
