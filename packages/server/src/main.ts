#!/usr/bin/env node
import { run } from './cli/index.ts'

// Whoever reads may have seen enough.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))
process.exitCode = await run(process.argv.slice(2), process.env, process.stdout, process.stderr)
