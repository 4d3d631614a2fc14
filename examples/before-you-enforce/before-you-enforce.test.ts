import { join } from 'node:path'
import { expect, test } from 'vitest'
import { commanded } from '../commanded.ts'

const here = import.meta.dirname

test('the report of the guide is what the command prints', async () => {
  const args = ['simulate', join(here, 'headgate.yaml'), '--log', join(here, 'access.log.1'), '--reveal']
  const { code, out, err } = await commanded(here, args)
  expect([code, err]).toEqual([0, ''])
  await expect(out).toMatchFileSnapshot('output.txt')
})
