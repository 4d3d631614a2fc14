import { run } from '../packages/server/src/cli/index.ts'

/** What a command prints, with files as they are named from this folder. */
export async function commanded(
  folder: string,
  args: readonly string[],
): Promise<{ code: number; out: string; err: string }> {
  const texts = { out: '', err: '' }
  const to = (name: 'out' | 'err') => ({ write: (text: string) => (texts[name] += text) })
  const code = await run(args, {}, to('out'), to('err'))
  const short = (text: string) => text.replaceAll(`${folder}/`, '')
  return { code, out: short(texts.out), err: short(texts.err) }
}
