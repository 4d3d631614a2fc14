import { join } from 'node:path'
import { expect, test } from 'vitest'
import { commanded } from '../commanded.ts'

const here = import.meta.dirname

test('the rules of the guide are what the command prints', async () => {
  const args = ['import', 'envoy', join(here, 'ratelimit.yaml'), '--map', 'user_id=header:x-user-id']
  const { code, out, err } = await commanded(here, args)
  expect(code).toBe(0)
  await expect(out).toMatchFileSnapshot('headgate.yaml')
  await expect(err).toMatchFileSnapshot('output.txt')
})
