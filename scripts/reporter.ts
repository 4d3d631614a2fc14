import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/** Ends a run with one line that people and programs can read: `12 passed, 0 failed`. */
export class OneLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], strayErrors: readonly SerializedError[]) {
    // A test that never finished has failed, and so has every error outside of a test (a file that does not load, a hook).
    const count = { passed: 0, failed: strayErrors.length, skipped: 0 }
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        count[state === 'pending' ? 'failed' : state]++
      }
      for (const suite of [module, ...module.children.allSuites()]) count.failed += suite.errors().length
    }
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : ''
    console.log(`${count.passed} passed, ${count.failed} failed${skipped}`)
  }
}
