// Loaded into a service that a test starts: it ends with the test, even one that is killed, and tells of its memory when asked.
process.stdin.on('data', () => {
  globalThis.gc?.()
  process.stdout.write(`${JSON.stringify({ memory: process.memoryUsage() })}\n`)
})
process.stdin.on('end', () => process.exit(1))
process.stdin.unref()
