// Breaks the engine in one small way at a time and runs the tests that should notice: `npm run mutants [name part]`.
// Each mutant is a mistake that somebody has made, in a limiter or in a write-up of one. It exits 1 if one survives.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface Mutant {
  /** The mistake. */
  readonly name: string
  /** File, from packages/headgate/src. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** Where the tests are that notice it, from packages/headgate/src. */
  readonly tests: readonly string[]
}

const cases = ['algorithms/cases.test.ts']

export const mutants: readonly Mutant[] = [
  {
    name: 'clock skew: a step back is paid again when the clock comes forward',
    file: 'algorithms/gcra.ts',
    from: 'const waitUs = (debtUs > 0 ? debtUs : 0) + cost * this.#up - this.#toleranceUs',
    to: 'const waitUs = Math.max(0, Math.min(debtUs, this.#toleranceUs)) + cost * this.#up - this.#toleranceUs',
    tests: cases,
  },
  {
    name: 'clock skew: a window stepped back to is counted anew',
    file: 'algorithms/fixed-window.ts',
    from: 'this.#startUs = startUs > lastUs ? startUs : lastUs',
    to: 'this.#startUs = startUs',
    tests: cases,
  },
  {
    name: 'idle time is saved up beyond the burst',
    file: 'algorithms/gcra.ts',
    from: 'const us = (idleUs > nowUs ? idleUs : nowUs) + cost * this.#up',
    to: 'const us = (idleUs > 0 ? idleUs : nowUs) + cost * this.#up',
    tests: cases,
  },
  {
    name: 'sliding window weighs the previous count by the time gone, not by the time left',
    file: 'algorithms/sliding-window.ts',
    from: 'mulDivUp(this.#windowUs - this.#elapsedUs, this.#previous, this.#windowUs)',
    to: 'mulDivUp(this.#elapsedUs, this.#previous, this.#windowUs)',
    tests: cases,
  },
  {
    name: 'sliding window rounds for the caller: admits to 100.7 of 100',
    file: 'algorithms/sliding-window.ts',
    from: 'return mulDivUp(',
    to: 'return mulDiv(',
    tests: ['properties/trace.test.ts'],
  },
  {
    name: 'a limit is tested without the cost of the request',
    file: 'algorithms/fixed-window.ts',
    from: 'this.#count + cost <= this.limit ? 0',
    to: 'this.#count < this.limit ? 0',
    tests: cases,
  },
  {
    name: 'a log keeps one entry per instant and forgets the others',
    file: 'algorithms/sliding-log.ts',
    from: '      addTo(state, size - 1, units)\n      return',
    to: '      return',
    tests: cases,
  },
  {
    name: 'a unit leaves the log one microsecond late',
    file: 'algorithms/sliding-log.ts',
    from: 'search(size, (i) => timeAt(state, i) > sinceUs)',
    to: 'search(size, (i) => timeAt(state, i) >= sinceUs)',
    tests: [...cases, 'properties/answers.test.ts'],
  },
  {
    name: 'the oldest partial slice is not counted whole',
    file: 'algorithms/strict-window.ts',
    from: 'n < slice - SLICES; n++',
    to: 'n <= slice - SLICES; n++',
    tests: cases,
  },
  {
    name: 'a wait is rounded down to the microsecond',
    file: 'algorithms/gcra.ts',
    from: 'us += Math.ceil(part / this.#down)',
    to: 'us += Math.floor(part / this.#down)',
    tests: ['properties/answers.test.ts', 'properties/trace.test.ts'],
  },
  {
    name: 'a wait is rounded down to the millisecond',
    file: 'decision.ts',
    from: 'this.retryAfterMs = Math.ceil(outcome.waitUs / 1000)',
    to: 'this.retryAfterMs = Math.floor(outcome.waitUs / 1000)',
    tests: cases,
  },
  {
    name: 'fractions of a microsecond are dropped: 70,000/s becomes 71,429/s',
    file: 'algorithms/gcra.ts',
    from: 'return units * this.#unitUs + mulDiv(this.#unitPart, units, this.#down)',
    to: 'return units * this.#unitUs + 0 * mulDiv(0, units, this.#down)',
    tests: ['properties/trace.test.ts'],
  },
  {
    name: 'wide products are left to floating point',
    file: 'algorithms/whole.ts',
    from: 'if (product < EXACT) {',
    to: 'if (product < Infinity) {',
    tests: ['algorithms/whole.test.ts'],
  },
  {
    name: 'limits are charged in order, each as it is tested',
    file: 'stores/memory.ts',
    from: 'if (cost >= 0) {\n      for (let i',
    to: 'if (cost >= -1) {\n      for (let i',
    tests: ['gate.test.ts', 'stores/memory.test.ts'],
  },
  {
    name: 'the wait of several limits is that of the first',
    file: 'decision.ts',
    from: ': charge.retryAfterMs > deciding.retryAfterMs)',
    to: ': charge.retryAfterMs < deciding.retryAfterMs)',
    tests: ['gate.test.ts', 'properties/several.test.ts'],
  },
  {
    name: 'two takes of one key in a group both find the last unit',
    file: 'stores/memory.ts',
    from: '          cost += other.cost\n',
    to: '',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'a peek spends',
    file: 'stores/memory.ts',
    from: "if (op.verb === 'take' && (outcomes[i] as Outcome).ok) {",
    to: 'if (isAsked(op) && (outcomes[i] as Outcome).ok) {',
    tests: ['gate.test.ts', 'stores/memory.test.ts'],
  },
  {
    name: 'a refund gives back what time has given back already',
    file: 'algorithms/gcra.ts',
    from: 'if (this.#compare(us, part, leftUs, leftPart) > 0) [us, part] = [leftUs, leftPart]',
    to: 'if (this.#compare(us, part, leftUs, leftPart) > 1e99) [us, part] = [leftUs, leftPart]',
    tests: ['gate.test.ts', 'properties/envelope.test.ts'],
  },
  {
    name: 'refunds out of turn do not move up what is behind them',
    file: 'algorithms/gcra.ts',
    from: '    if (isLast) return late\n',
    to: '    if (isLast || moved.length >= 0) return late\n',
    tests: ['gate.test.ts', 'properties/envelope.test.ts'],
  },
  {
    name: 'a refund goes into a window that is over',
    file: 'algorithms/fixed-window.ts',
    from: 'if (state[at] === ref) state[at + 1]',
    to: 'if (ref > 0) state[at + 1]',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'settle and refund act twice',
    file: 'decision.ts',
    from: 'if (once.settled) return desk.change(ops)\n',
    to: '',
    tests: ['gate.test.ts'],
  },
  {
    name: 'a changed limit starts full',
    file: 'stores/memory.ts',
    from: 'if (at < 0 && space.tables.length > 1) {',
    to: 'if (at < 0 && space.tables.length > 99) {',
    tests: ['gate.test.ts', 'stores/memory.test.ts'],
  },
  {
    name: 'eviction takes any key, also one that is being refused',
    file: 'stores/table.ts',
    from: 'return policy.waitUs(state, at, nowUs, 1) > 0 ? idleUs + REFUSED : idleUs',
    to: 'return idleUs',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'removing a key leaves a hole that hides others',
    file: 'stores/table.ts',
    from: 'if (distance(home, next) < distance(hole, next)) continue',
    to: 'if (distance(home, next) >= 0) continue',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'memory is not bounded',
    file: 'stores/memory.ts',
    from: 'while (bytes > 0 && this.#bytes + bytes > this.#maxBytes) {',
    to: 'while (bytes > 0 && this.#bytes + bytes > 1e12) {',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'composite keys are joined without their lengths',
    file: 'key.ts',
    from: 'item.length}:',
    to: 'item.length * 0}:',
    tests: ['gate.test.ts'],
  },
  {
    name: 'hashes of one-byte and two-byte keys can meet',
    file: 'stores/hash.ts',
    from: 'if (wide > 0xff) hashWide(key)',
    to: 'if (wide > 0xffff) hashWide(key)',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'a take overtakes those in line',
    file: 'wait.ts',
    from: 'charges.filter((charge) => !charge.observe && charge.cost > 0',
    to: 'charges.filter((charge) => charge.observe && charge.cost > 0',
    tests: ['wait.test.ts'],
  },
  {
    name: 'a refusal counts its wait from a clock reading of long ago',
    file: 'stores/memory.ts',
    from: 'if (waitUs > 0 && reused) {',
    to: 'if (waitUs < 0 && reused) {',
    tests: ['clock.test.ts'],
  },
  {
    name: 'a clock reading outlives the run it was made in',
    file: 'clock.ts',
    from: '    this.#running = false\n    this.#left = 0\n',
    to: '    this.#running = false\n',
    tests: ['clock.test.ts'],
  },
  {
    name: 'staggered windows are shifted by a whole window and more',
    file: 'algorithms/stagger.ts',
    from: 'Math.floor(share * windowUs)',
    to: 'Math.floor((share + 1) * windowUs)',
    tests: ['algorithms/whole.test.ts', 'properties/stagger.test.ts'],
  },
  {
    name: 'a day has 24 hours',
    file: 'algorithms/calendar.ts',
    from: 'if (this.#format === undefined) return midnight',
    to: 'if (this.#format === undefined || index > 0) return midnight',
    tests: [...cases, 'algorithms/calendar.test.ts'],
  },
  {
    name: 'an observed limit refuses',
    file: 'stores/memory.ts',
    from: '      if (op.observe) continue\n',
    to: '',
    tests: ['gate.test.ts', 'stores/memory.test.ts'],
  },
  {
    name: 'a repeated id is charged again',
    file: 'stores/memory.ts',
    from: 'if (known !== undefined && !known.forgotten) return known.result',
    to: '',
    tests: ['gate.test.ts', 'stores/memory.test.ts'],
  },
  {
    name: 'an id is still free after its refund',
    file: 'stores/memory.ts',
    from: 'if (known !== undefined && group.forget) known.forgotten = true',
    to: '',
    tests: ['gate.test.ts'],
  },
  {
    name: 'a refund gives back what a reset has forgotten',
    file: 'stores/memory.ts',
    from: 'if (untilUs > us) this.#beginEra(space, key, untilUs, us)',
    to: '',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'a block goes when memory is short, as any key does',
    file: 'stores/memory.ts',
    from: 'const blocks = space.blocks ?? new PackedTable(blocked, this, true)',
    to: 'const blocks = space.blocks ?? new PackedTable(blocked, this, false)',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'limits that nobody uses any more stay in memory',
    file: 'stores/memory.ts',
    from: 'if (idle) this.#forgetSpace(name, space)',
    to: '',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'each rate of an override has a table of its own',
    file: 'stores/memory.ts',
    from: 'const MOST_TABLES = 8',
    to: 'const MOST_TABLES = 1e9',
    tests: ['stores/memory.test.ts'],
  },
  {
    name: 'redis: a key ends before it is full again, its time rounded down',
    file: 'redis/script.ts',
    from: "struct.pack('<d', us), 'PX', ceil((us - now) / 1000) + slack)",
    to: "struct.pack('<d', us), 'PX', math.floor((us - now) / 1000) + slack)",
    tests: ['redis/expiry.test.ts'],
  },
  {
    name: 'redis: a key ends before it is full again, of several limits',
    file: 'redis/script.ts',
    from: ".. pack('<d', us), 'PX', ceil((us - now) / 1000) + slack)",
    to: ".. pack('<d', us), 'PX', math.floor((us - now) / 1000) + slack)",
    tests: ['redis/expiry.test.ts'],
  },
  {
    name: 'redis: a key ends before it is full again, whatever the algorithm',
    file: 'redis/script.ts',
    from: 'local ttl = ceil((untilUs - now) / 1000)',
    to: 'local ttl = floor((untilUs - now) / 1000)',
    tests: ['redis/expiry.test.ts'],
  },
  {
    name: 'redis: limits are charged although another refuses',
    file: 'redis/script.ts',
    from: 'or cost > limits[policy] then ok = false end',
    to: 'or cost > limits[policy] then ok = i > k + 1 end',
    tests: ['redis/agreement.test.ts'],
  },
  {
    name: 'redis: limits are charged although another refuses, whatever the algorithm',
    file: 'redis/script.ts',
    from: '  if ok then\n    for _, op in ipairs(ops) do\n      if op.ok',
    to: '  if ok or ops[2] then\n    for _, op in ipairs(ops) do\n      if op.ok',
    tests: ['redis/agreement.test.ts'],
  },
  {
    name: 'redis: a refusal writes',
    file: 'redis/script.ts',
    from: 'or cost > limit then return { now, -1 - at } end',
    to: "or cost > limit then call('PEXPIRE', key, 900000) return { now, -1 - at } end",
    tests: ['redis/expiry.test.ts'],
  },
  {
    name: 'redis: a clock that begins at 0 is not believed',
    file: 'redis/script.ts',
    from: 'if now < 0 then\n  local time',
    to: 'if now <= 0 then\n  local time',
    tests: ['redis/agreement.test.ts'],
  },
  {
    name: 'redis: a log is never cleared of what has left it',
    file: 'algorithms/sliding-log.lua.ts',
    from: 'e.dropped > e.size + 16',
    to: 'e.dropped > 1e9',
    tests: ['redis/expiry.test.ts'],
  },
  {
    name: 'redis: a slot comes back only when it is released',
    file: 'algorithms/at-once.lua.ts',
    from: "call('ZRANGEBYSCORE', e.key, '(0', now)",
    to: "call('ZRANGEBYSCORE', e.key, '(0', 0)",
    tests: ['redis/agreement.test.ts'],
  },
  {
    name: 'redis: slots of a running request are not renewed',
    file: 'renewals.ts',
    from: 'this.#renew(ops.slice(from, from + MOST_AT_ONCE))',
    to: '{}',
    tests: ['redis/at-once.test.ts'],
  },
  {
    name: 'redis: every take is a call of its own',
    file: 'redis/caller.ts',
    from: 'const MOST_AT_ONCE = 24',
    to: 'const MOST_AT_ONCE = 1',
    tests: ['redis/calls.test.ts'],
  },
  {
    name: 'redis: a server without the script is a failure',
    file: 'redis/script-call.ts',
    from: "if (!isError(reason, 'NOSCRIPT')) throw reason",
    to: 'throw reason',
    tests: ['redis/calls.test.ts'],
  },
  {
    name: 'redis: an id is known only to who made it',
    file: 'redis/store.ts',
    from: 'id: (id) => id }',
    to: 'id: (id) => id + Math.random() }',
    tests: ['redis/ids.test.ts'],
  },
  {
    name: 'redis: each process may correct the booking of an id',
    file: 'redis/script.ts',
    from: 'elseif correct and known and byte(known, 1) ~= 111 then',
    to: 'elseif correct and not known then',
    tests: ['redis/ids.test.ts'],
  },
  {
    name: 'redis: an id is still free after its refund',
    file: 'redis/script.ts',
    from: "and 'f' or 'c') .. sub(known, 2)",
    to: "and 'c' or 'c') .. sub(known, 2)",
    tests: ['redis/ids.test.ts'],
  },
  {
    name: 'redis: what is noted with an id names its keys',
    file: 'redis/store.ts',
    from: 'memo: await this.#hash.seal(group.memo)',
    to: 'memo: group.memo',
    tests: ['redis/hash-keys.test.ts'],
  },
  {
    name: 'redis: who asks for less is denied as well',
    file: 'redis/denials.ts',
    from: '(group.ops[i]?.cost ?? 0) >= (ops[i]?.cost ?? 0)',
    to: '(group.ops[i]?.cost ?? 0) >= 0',
    tests: ['redis/quick-deny.test.ts'],
  },
  {
    name: 'redis: denials of slots in flight are remembered',
    file: 'redis/denials.ts',
    from: "isAsked(op) && op.counter.policy.algorithm !== 'at-once'",
    to: 'isAsked(op)',
    tests: ['redis/quick-deny.test.ts'],
  },
  {
    name: 'redis: a denial that was on its way survives a reset',
    file: 'redis/store.ts',
    from: 'if (result.ok) this.#forgetDenials(group)\n    else this',
    to: 'if (!result.ok) this',
    tests: ['redis/quick-deny.test.ts'],
  },
  {
    name: 'redis: a denial is believed for its whole wait where units come back',
    file: 'redis/denials.ts',
    from: 'const LONGEST_WITH_GIVE_BACKS_US = 1_000_000',
    to: 'const LONGEST_WITH_GIVE_BACKS_US = 60_000_000',
    tests: ['redis/quick-deny.test.ts'],
  },
  {
    name: 'redis: a flood of keys pushes out who is denied again and again',
    file: 'redis/denials.ts',
    from: 'if (this.#isFirst(name)) return\n',
    to: '',
    tests: ['redis/quick-deny.test.ts'],
  },
  {
    name: 'redis: names of denials that have ended stay in memory',
    file: 'redis/denials.ts',
    from: 'names?.delete(name)\n',
    to: '',
    tests: ['redis/quick-deny.test.ts'],
  },
  {
    name: 'idempotency: two that come together both run',
    file: 'idempotency/memory.ts',
    from: "if (this.#running.get(name, nowUs) !== undefined) return 'running'",
    to: '',
    tests: ['idempotency/replies.test.ts'],
  },
  {
    name: 'idempotency: one who was overtaken replaces the reply of who ran after it',
    file: 'idempotency/memory.ts',
    from: 'if (holder !== token || this.#kept.get(name, nowUs) !== undefined) return false',
    to: '',
    tests: ['idempotency/replies.test.ts'],
  },
  {
    name: 'idempotency: a flood of replies grows without bound',
    file: 'idempotency/memory.ts',
    from: 'while (this.#bytes > this.#maxBytes) this.#kept.shift()',
    to: '',
    tests: ['idempotency/replies.test.ts'],
  },
  {
    name: 'idempotency: redis: who was overtaken frees the key of who runs now',
    file: 'idempotency/redis.ts',
    from: 'if held and held ~= mine then return held == ARGV[3] and 1 or 0 end',
    to: '',
    tests: ['idempotency/replies.test.ts'],
  },
  {
    name: 'idempotency: redis: a key of a process that died stays taken',
    file: 'idempotency/redis.ts',
    from: "redis.call('SET', KEYS[1], mine, 'PX', ARGV[2])",
    to: "redis.call('SET', KEYS[1], mine)",
    tests: ['idempotency/replies.test.ts'],
  },
  {
    name: 'idempotency: redis: a call that is sent twice finds itself running',
    file: 'idempotency/redis.ts',
    from: 'if held and held ~= mine then return held end',
    to: 'if held then return held end',
    tests: ['idempotency/replies.test.ts'],
  },
  {
    name: 'idempotency: a store that hangs is waited for',
    file: 'idempotency/patience.ts',
    from: '() => void endOfTurn(late)',
    to: '() => void endOfTurn(() => late === undefined)',
    tests: ['idempotency/outage.test.ts'],
  },
  {
    name: 'idempotency: a store that is down is asked for every request',
    file: 'idempotency/patience.ts',
    from: 'if (this.#failures >= MOST_FAILURES) {',
    to: 'if (this.#failures < 0) {',
    tests: ['idempotency/outage.test.ts'],
  },
  {
    name: 'idempotency: who is refused while the store hangs leaves its key taken',
    file: 'idempotency/core.ts',
    from: 'void run.drop()\n',
    to: '\n',
    tests: ['idempotency/outage.test.ts'],
  },
  {
    name: 'idempotency: the same key answers any request',
    file: 'idempotency/core.ts',
    from: "if (!isSame(first.payload, payload)) return problem('idempotency_payload_mismatch')",
    to: '',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: callers meet in one key',
    file: 'idempotency/core.ts',
    from: 'hashOf(this.#scopeOf(asked), key)',
    to: 'hashOf(key)',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: a failure is replayed for a day',
    file: 'idempotency/options.ts',
    from: 'return status < 500 && status !== 429',
    to: 'return status !== 429',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: a refusal by a limit is replayed for a day',
    file: 'idempotency/options.ts',
    from: 'return status < 500 && status !== 429',
    to: 'return status < 500',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: half a response is replayed when it was too large',
    file: 'idempotency/core.ts',
    from: 'if (body.isTooLarge) {',
    to: 'if (body === undefined) {',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: sessions are handed out again',
    file: 'idempotency/reply.ts',
    from: '|set-cookie|',
    to: '|',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: a client that lost its connection runs its request twice',
    file: 'idempotency/node-response.ts',
    from: 'if (this.#head !== undefined) this.#breakOff()',
    to: 'this.#breakOff()',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: a response that broke off keeps its key',
    file: 'idempotency/node-response.ts',
    from: 'if (this.#head !== undefined) this.#breakOff()',
    to: '',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: a response ends before the store has it',
    file: 'idempotency/node-response.ts',
    from: 'if (!(saved instanceof Promise)) return goOn()',
    to: 'if (saved !== null) return goOn()',
    tests: ['idempotency/node.test.ts'],
  },
  {
    name: 'idempotency: fields given to writeHead alone are lost',
    file: 'idempotency/node-response.ts',
    from: 'new Map([...fields, ...own])',
    to: 'fields',
    tests: ['idempotency/node.test.ts'],
  },
  {
    name: 'idempotency: a body that nobody reads is not compared',
    file: 'idempotency/node-body.ts',
    from: "if (!this.#req.readableFlowing && this.#req.listenerCount('readable') === 0) this.#req.resume()",
    to: '',
    tests: ['idempotency/frameworks.test.ts'],
  },
  {
    name: 'idempotency: a body that came early is taken from the handler',
    file: 'idempotency/node-body.ts',
    from: 'this.#req.unshift(bytes)',
    to: '',
    tests: ['idempotency/node.test.ts'],
  },
  {
    name: 'idempotency: a parsed body is told apart by the order of its fields',
    file: 'idempotency/node-body.ts',
    from: '.sort(([a], [b]) => (a < b ? -1 : 1))',
    to: '',
    tests: ['idempotency/node.test.ts'],
  },
  {
    name: 'idempotency: a response that nobody came to read is lost',
    file: 'idempotency/fetch-response.ts',
    from: 'if (!this.#begun) return this.salvage()',
    to: '',
    tests: ['idempotency/fetch.test.ts'],
  },
  {
    name: 'idempotency: a stream is read to its end before anybody gets it',
    file: 'idempotency/fetch-response.ts',
    from: 'Promise.race([this.#next, turn])',
    to: 'Promise.race([this.#next, turn.then(() => this.#next)])',
    tests: ['idempotency/frameworks.test.ts'],
  },
]

const root = fileURLToPath(new URL('..', import.meta.url))
export const pathOf = ({ file }: Mutant) => `${root}packages/headgate/src/${file}`

function isKilled(mutant: Mutant): string | undefined {
  const path = pathOf(mutant)
  const original = readFileSync(path, 'utf8')
  try {
    writeFileSync(
      path,
      original.replace(mutant.from, () => mutant.to),
    )
    const tests = mutant.tests.map((test) => `packages/headgate/src/${test}`)
    const run = spawnSync(`${root}node_modules/.bin/vitest`, ['run', '--bail', '1', ...tests], {
      cwd: root,
      encoding: 'utf8',
      timeout: 300_000,
    })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours
    const [, failed] = /FAIL\s+(.*)/.exec((run.stdout + run.stderr).replace(/\x1b\[\d+m/g, '')) ?? []
    return run.status === 0 ? undefined : (failed ?? 'the run failed')
  } finally {
    writeFileSync(path, original)
  }
}

function main(part: string): void {
  const chosen = mutants.filter(({ name, file }) => `${name} ${file}`.includes(part))
  let survivors = 0
  for (const mutant of chosen) {
    const by = isKilled(mutant)
    if (by === undefined) survivors++
    console.log(
      by === undefined ? `SURVIVED  ${mutant.name} (${mutant.file})` : `killed    ${mutant.name}\n          by ${by}`,
    )
  }
  console.log(`${chosen.length - survivors} killed, ${survivors} survived`)
  process.exitCode = survivors === 0 ? 0 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv[2] ?? '')
