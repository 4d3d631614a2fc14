// A show of some ten seconds: `npm run demo`. All but the last part runs on a virtual clock; nothing leaves this machine.
import { compareAlgorithms, exactWaits } from './algorithms.ts'
import { line, severalLimits } from './requests.ts'
import { paint, title } from './screen.ts'
import { speed } from './speed.ts'

console.log(paint('bold', 'Headgate: rate limits that say what they guarantee'))
await compareAlgorithms()
await severalLimits()
await exactWaits()
await line()
await speed()

await title('Try next', 'each is one short file, printed with its output in the docs')
console.log(`npx tsx examples/quick-start/quick-start.ts
npx tsx examples/several-limits/several-limits.ts
npx tsx examples/wait-in-line/wait-in-line.ts
npx tsx examples/reserve-and-settle/reserve-and-settle.ts

README.md                        what it is, and when not to use it
docs/reference/algorithms.md     which algorithm to choose
ARCHITECTURE.md                  how it is built
`)
