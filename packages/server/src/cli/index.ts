import { Command, CommanderError } from 'commander'
import { check } from './check.ts'
import { explain } from './explain.ts'
import { inspect, reset, top } from './remote.ts'
import { serveCommand } from './serve.ts'

/** Where commands write, and what they read of the environment. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly out: { write(text: string): unknown; readonly isTTY?: boolean; readonly columns?: number }
  readonly err: { write(text: string): unknown }
}

/** Runs one command and returns its exit code: 0 all is well, 1 something is wrong with what was given, 2 misuse. */
export async function run(
  args: readonly string[],
  env: Terminal['env'],
  out: Terminal['out'],
  err: Terminal['err'],
): Promise<number> {
  const terminal = { env, out, err }
  let code = 0
  const done = async (result: Promise<number> | number) => {
    code = await result
  }
  const program = new Command('headgate')
    .description('Rate limits in front of a fleet')
    .exitOverride()
    .configureOutput({ writeOut: (text) => out.write(text), writeErr: (text) => err.write(text) })
  const json = ['--json', 'print JSON'] as const
  const admin = ['--admin <url>', 'where the admin port is', 'http://127.0.0.1:8082'] as const
  program
    .command('serve')
    .argument('[rules]', 'rules file')
    .description('starts gateway, decision API and admin port')
    .action((file) => done(serveCommand(file, terminal)))
  program
    .command('check')
    .argument('[rules]', 'rules file')
    .option(...json)
    .option('--schema', 'write the JSON Schema of rules files instead')
    .description('says what is wrong with a rules file, by line and column')
    .action((file, options) => done(check(file, options, terminal)))
  program
    .command('explain')
    .argument('<rules>', 'rules file')
    .argument('<method>')
    .argument('<url>')
    .option('-H, --header <header...>', 'header of the request, as "name: value"')
    .option('--ip <address>', 'address of the client', '127.0.0.1')
    .option(...json)
    .description('says which limits a request meets, with which key, and why not the others')
    .action((file, method, url, options) => done(explain(file, method, url, options, terminal)))
  for (const [name, action, text] of [
    ['inspect', inspect, 'shows the state of a key under a limit'],
    ['reset', reset, 'forgets the counts and the block of a key'],
  ] as const)
    program
      .command(name)
      .argument('<limit>')
      .argument('<key>')
      .option(...admin)
      .option(...json)
      .description(text)
      .action((limit, key, options) => done(action(limit, key, options, terminal)))
  program
    .command('top')
    .option(...admin)
    .option(...json)
    .option('-n <count>', 'how many keys', '20')
    .option('--once', 'print once and end')
    .description('shows the busiest keys, live')
    .action((options) => done(top(options, terminal)))
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? 0 : 2
  }
  return code
}
