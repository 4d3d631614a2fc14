import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { modeNames } from 'headgate/testing'
import { formatNames } from '../replay/index.ts'
import { check } from './check.ts'
import { explain } from './explain.ts'
import { importCommand } from './import.ts'
import { Misuse } from './misuse.ts'
import { inspect, reset } from './remote.ts'
import { type ReplayFlags, replayCommand } from './replay.ts'
import { serveCommand } from './serve.ts'
import { fleetDefaults, simulateCommand } from './simulate.ts'
import { plain } from './text.ts'
import { top } from './top.ts'

/** A stream that may be a terminal. */
export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
  on?(event: 'resize', listener: () => void): unknown
  off?(event: 'resize', listener: () => void): unknown
}

/** Where signals arrive: the process, or a stand-in. */
export interface Signals {
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
}

/** Where commands write, and what they hear of the world. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly out: Output
  readonly err: { write(text: string): unknown }
  readonly signals: Signals
  /** What is piped in. */
  input(): AsyncIterable<Uint8Array>
}

/** Runs one command and returns its exit code: 0 all is well, 1 something is wrong with what was given, 2 misuse. */
export async function run(
  args: readonly string[],
  env: Terminal['env'],
  out: Terminal['out'],
  err: Terminal['err'],
  signals: Signals = process,
  input: Terminal['input'] = () => process.stdin,
): Promise<number> {
  let code = 0
  const program = programOf({ env, out, err, signals, input }, async (result) => {
    code = await result
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    const message = error instanceof Error ? error.message : String(error)
    err.write(`headgate: ${message.split('\n').map(plain).join('\n')}\n`)
    return error instanceof Misuse ? 2 : 1
  }
}

type Done = (result: Promise<number> | number) => Promise<void>

const JSON_OUT = ['--json', 'print JSON'] as const
const ADMIN = ['--admin <url>', 'where the admin port is', 'http://127.0.0.1:8082'] as const
const TOKEN = 'The token is in HEADGATE_ADMIN_TOKEN; to look, HEADGATE_ADMIN_READ_TOKEN is enough.'

function programOf(terminal: Terminal, done: Done): Command {
  const { out, err } = terminal
  const program = new Command('headgate')
    .description('Rate limits in front of a fleet')
    .version(versionOf())
    .exitOverride()
    .configureOutput({ writeOut: (text) => out.write(text), writeErr: (text) => err.write(text) })
    .addHelpText('after', '\nExit codes: 0 all is well, 1 something is wrong with what was given, 2 misuse.')
  addFileCommands(program, terminal, done)
  addSimulation(program, terminal, done)
  addImport(program, terminal, done)
  addAdminCommands(program, terminal, done)
  return program
}

function addFileCommands(program: Command, terminal: Terminal, done: Done): void {
  command(
    program,
    'serve',
    'starts gateway, decision API, Envoy rate limit service and admin port',
    'headgate serve headgate.yaml\n  headgate serve --envoy ratelimit/',
  )
    .argument('[rules]', 'rules file; without one there are no limits but those that calls bring along')
    .option(
      '--envoy <path>',
      'configuration of envoyproxy/ratelimit, or a folder of them; may be repeated',
      collect,
      [],
    )
    .action((file, options) => done(serveCommand(file, options, terminal)))
  command(program, 'check', 'says what is wrong with a rules file, by line and column', 'headgate check headgate.yaml')
    .argument('[rules]', 'rules file')
    .option(...JSON_OUT)
    .option('--schema', 'write the JSON Schema of rules files instead')
    .action((file, options) => done(check(file, options, terminal)))
  command(
    program,
    'explain',
    'says which limits a request meets, with which key, and why not the others; counts are taken as unused',
    "headgate explain headgate.yaml GET '/export/a?x=1' -H 'x-api-key: k1' --ip 192.0.2.7",
  )
    .argument('<rules>', 'rules file')
    .argument('<method>', 'such as GET')
    .argument('<url>', 'path, or whole URL to name the host too')
    .option('-H, --header <header>', 'header of the request, as "name: value"; may be repeated', collect, [])
    .option('--ip <address>', 'the other end of the connection', '127.0.0.1')
    .option(...JSON_OUT)
    .action((file, method, url, options) => done(explain(file, method, url, options, terminal)))
}

function addImport(program: Command, terminal: Terminal, done: Done): void {
  command(
    program,
    'import',
    'writes rules that mean the same as a configuration of envoyproxy/ratelimit, and says what it cannot carry over',
    'headgate import envoy ratelimit.yaml --map user_id=header:x-user-id > headgate.yaml',
  )
    .argument('<from>', 'envoy')
    .argument('<files...>', 'configurations, one domain each')
    .option(
      '--map <key=word>',
      'what the key of a descriptor stands for, as a word of "by"; may be repeated',
      collect,
      [],
    )
    .option(...JSON_OUT)
    .action((from, files, options) => done(importCommand(from, files, options, terminal)))
}

function addSimulation(program: Command, terminal: Terminal, done: Done): void {
  const { mode, gateways, regions, rate, keys, seconds, limit, seed, faults } = fleetDefaults
  command(
    program,
    'simulate',
    'says what rules would have made of the requests in access logs; or lets a fleet of gateways decide in virtual time, and says what it admitted',
    'headgate simulate headgate.yaml --log access.log --log access.log.1.gz\n  headgate simulate --fleet --gateways 20 --rate 50000 --keys 100000 --mode lease --limit 1000/s',
  )
    .argument('[rules]', 'rules file, with --log')
    .option('--log <file>', 'access log, also packed by gzip; - is standard input; may be repeated', collect, [])
    .option('--format <format>', `of the logs: ${formatNames.join(', ')}; found out unless it is given`)
    .option('--reveal', 'show the keys in logs as they are')
    .option('--fleet', 'simulate a fleet')
    .option(
      '--mode <mode>',
      `with --log enforce or observe, in place of what the rules say; with --fleet ${modeNames.join(', ')}`,
      mode,
    )
    .option('--gateways <count>', 'how many, up to 200', gateways)
    .option('--regions <count>', 'the store is in the first; gateways take turns', regions)
    .option('--rate <count>', 'requests per second at each gateway, on average over the run', rate)
    .option('--keys <count>', "how many keys, the first most often (Zipf's law)", keys)
    .option('--limit <limit>', 'of every key: units per second, and at once', limit)
    .option('--seconds <count>', 'virtual time', seconds)
    .option('--faults <faults>', 'none, or some: crashes, pauses, cuts, storms, failovers, wrong clocks', faults)
    .option('--seed <number>', 'the same seed gives the same run', seed)
    .option(...JSON_OUT)
    .action((file, options, self: Command) =>
      done(
        options.log.length > 0 ? replayCommand(file, given(self), terminal) : simulateCommand(file, options, terminal),
      ),
    )
}

/** Without defaults. */
function given(command: Command): ReplayFlags {
  const flags = Object.entries(command.opts()).filter(([name]) => command.getOptionValueSource(name) === 'cli')
  return Object.fromEntries(flags) as unknown as ReplayFlags
}

function addAdminCommands(program: Command, terminal: Terminal, done: Done): void {
  command(program, 'inspect', 'shows the state of a key under a limit', 'headgate inspect exports k1 /export/**', TOKEN)
    .argument('<limit>', 'name of the limit')
    .argument('[key...]', "the key, a word for each part of the limit's by; none where all share one counter")
    .option('--tier <tier>', 'under this tier only')
    .option(...ADMIN)
    .option(...JSON_OUT)
    .action((limit, key, options) => done(inspect(limit, key, options, terminal)))
  command(program, 'reset', 'forgets the counts and the block of a key', 'headgate reset per-ip 192.0.2.7', TOKEN)
    .argument('<limit>', 'name of the limit')
    .argument('[key...]', "the key, a word for each part of the limit's by; none where all share one counter")
    .option(...ADMIN)
    .option(...JSON_OUT)
    .action((limit, key, options) => done(reset(limit, key, options, terminal)))
  command(
    program,
    'top',
    'shows the keys that ask most, live on a terminal',
    'headgate top --limit per-key -n 10',
    TOKEN,
  )
    .option(...ADMIN)
    .option(...JSON_OUT)
    .option('--limit <name>', 'of this limit only')
    .option('-n <count>', 'how many keys, up to 100', '20')
    .option('--reveal', 'show keys as they are; noted in the audit')
    .option('--once', 'print once and end')
    .action((options) => done(top(options, terminal)))
}

function command(program: Command, name: string, description: string, example: string, more = ''): Command {
  return program
    .command(name)
    .description(description)
    .addHelpText('after', `\nExample:\n  ${example}${more && `\n\n${more}`}`)
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value]
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return version
}
