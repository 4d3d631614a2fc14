import { createServer } from 'node:net'

/** The port, or the next one that is free, and says so. */
export async function freePort(wanted: number, except = ''): Promise<string> {
  // 8081 and 8082 belong to other parts of the service.
  const others = Array.from({ length: 100 }, (_, i) => 8083 + i)
  for (const port of [wanted, ...others]) {
    if (String(port) === except || !(await isFree(port))) continue
    if (port !== wanted) console.log(`Port ${wanted} is taken, so this is on ${port}.`)
    return String(port)
  }
  return '0'
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
