import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { Watch } from './watch.ts'

function watched() {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-watch-'))
  const file = join(folder, 'rules.yaml')
  writeFileSync(file, 'first')
  const told = { times: 0 }
  const watch = new Watch(() => {
    told.times++
  })
  onTestFinished(() => {
    watch.close()
    rmSync(folder, { recursive: true })
  })
  watch.these([file], [])
  return { file, watch, told }
}

test('a file that changes after it was read, and before it is watched anew, is told of', async () => {
  const { file, watch, told } = watched()
  writeFileSync(file, 'second')
  watch.these([file], [])
  await until('it is told', () => told.times > 0 || undefined)
})

test('steps that follow each other closely are one change, though it was watched twice meanwhile', async () => {
  const { file, watch, told } = watched()
  watch.these([file], [])
  for (const text of ['second', 'third', '']) writeFileSync(file, text)
  await until('it is told', () => told.times > 0 || undefined)
  expect(told.times).toBe(1)
})
