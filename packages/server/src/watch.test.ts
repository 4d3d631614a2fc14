import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { Watch } from './watch.ts'

/** @param lookMs how often it looks by itself; never, unless said */
function watched(lookMs = 3_600_000) {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-watch-'))
  const file = join(folder, 'rules.yaml')
  writeFileSync(file, 'first')
  const told = { times: 0 }
  const watch = new Watch(() => {
    told.times++
  }, lookMs)
  onTestFinished(() => {
    watch.close()
    rmSync(folder, { recursive: true, force: true })
  })
  watch.these([file], [])
  return { folder, file, watch, told }
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

test('a file that a link leads to, in another folder, is told of when it is written', async () => {
  const { folder, watch, told } = watched()
  mkdirSync(join(folder, 'etc'))
  mkdirSync(join(folder, 'elsewhere'))
  const real = join(folder, 'elsewhere', 'real.yaml')
  writeFileSync(real, 'first')
  symlinkSync('../elsewhere/real.yaml', join(folder, 'etc', 'rules.yaml'))
  watch.these([join(folder, 'etc', 'rules.yaml')], [])
  writeFileSync(real, 'second')
  await until('it is told', () => told.times > 0 || undefined)
})

test('a folder that is swapped by its link is told of, once, and so is what is written there then', async () => {
  const { folder, watch, told } = watched(20)
  for (const name of ['r1', 'r2']) {
    mkdirSync(join(folder, name))
    writeFileSync(join(folder, name, 'rules.yaml'), name)
  }
  symlinkSync('r1', join(folder, 'current'))
  watch.these([join(folder, 'current', 'rules.yaml')], [])
  symlinkSync('r2', join(folder, 'next'))
  renameSync(join(folder, 'next'), join(folder, 'current'))
  await until('it is told', () => told.times > 0 || undefined)
  expect(told.times).toBe(1)
  writeFileSync(join(folder, 'r2', 'rules.yaml'), 'other')
  await until('it is told again', () => told.times > 1 || undefined)
})

test('a folder that is removed and made anew is told of each time, and watched again', async () => {
  const { folder, file, told } = watched(20)
  rmSync(folder, { recursive: true })
  await until('it is told that it went', () => told.times > 0 || undefined)
  const went = told.times
  mkdirSync(folder)
  writeFileSync(file, 'second')
  await until('it is told that it is back', () => told.times > went || undefined)
  const came = told.times
  writeFileSync(file, 'third, and longer')
  await until('it is told of what is new', () => told.times > came || undefined)
})
