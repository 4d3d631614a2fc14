import { format } from 'node:util'
import { vi } from 'vitest'

/** Runs a program, by importing it, and returns what it prints. */
export async function printed(program: () => Promise<unknown>): Promise<string> {
  const lines: string[] = []
  const log = vi.spyOn(console, 'log').mockImplementation((...values) => void lines.push(format(...values)))
  try {
    await program()
  } finally {
    log.mockRestore()
  }
  return `${lines.join('\n')}\n`
}
