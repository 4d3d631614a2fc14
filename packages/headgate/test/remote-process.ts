// Another process that keeps counts in memory: the child's side of remote-server.ts.
import { memory } from '../src/index.ts'
import { serve } from './remote-server.ts'

process.once('disconnect', () => process.exit(1)) // whoever asked is gone
const { port } = await serve(memory(), { port: Number(process.argv[2]) })
process.send?.(port)
