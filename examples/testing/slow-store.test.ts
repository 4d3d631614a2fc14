// #region suite
import { storeSuite } from 'headgate/testing'
import { describe, test } from 'vitest'
import { slowStore } from './slow-store.ts'

describe('the slow store', () => {
  for (const { name, run } of storeSuite((clock) => slowStore({ clock }))) test(name, run)
})
// #endregion
