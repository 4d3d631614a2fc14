import { setTimeout as sleep } from 'node:timers/promises'

/** Whether somebody watches. Into a file or a pipe all is printed at once and without colours. */
const live = process.stdout.isTTY === true
const coloured = live && !process.env.NO_COLOR
const wide = live && process.stdout.columns >= 80

const codes = { bold: 1, dim: 2, red: 31, green: 32 } as const

export function paint(style: keyof typeof codes, text: string): string {
  return coloured ? `\x1b[${codes[style]}m${text}\x1b[0m` : text
}

/** Gives a watcher time to read. */
export async function pause(ms: number): Promise<void> {
  if (live) await sleep(ms)
}

export async function title(text: string, subtitle: string): Promise<void> {
  console.log(`\n${paint('bold', text)}\n${paint('dim', subtitle)}\n`)
  await pause(350)
}

/** Shows a picture grow from its first frame to its last; only the last where it could not be drawn over. */
export async function animate(frames: number, draw: (frame: number) => readonly string[]): Promise<void> {
  const lines = draw(frames).length
  if (wide && process.stdout.rows > lines) {
    for (let frame = 1; frame < frames; frame++) {
      for (const line of draw(frame)) console.log(line)
      await pause(40)
      process.stdout.write(`\x1b[${lines}A`)
    }
  }
  for (const line of draw(frames)) console.log(line)
}

const HEIGHTS = ' ▁▂▃▄▅▆▇█'

/** One character per number, as high as the root of its share of `most`, so that small numbers can be told apart. */
export function plot(numbers: readonly number[], most: number): string {
  return numbers.map((n) => HEIGHTS[Math.ceil(Math.sqrt(n / most) * (HEIGHTS.length - 1))]).join('')
}

export function verdict(ok: boolean): string {
  return ok ? paint('green', 'admitted') : paint('red', 'refused')
}

export function grouped(n: number): string {
  return Math.round(n).toLocaleString('en-US')
}
