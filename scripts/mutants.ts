// Breaks the engine in one small way at a time and runs the tests that should notice: `npm run mutants [name part]`.
// Each mutant is a mistake that somebody has made, in a limiter or in a write-up of one. It exits 1 if one survives.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface Mutant {
  /** The mistake. */
  readonly name: string
  /** Where it is; the library unless said otherwise. */
  readonly package?: 'headgate' | 'server'
  /** File, from the package's src. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** Where the tests are that notice it, from the package's src. */
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
    name: 'headers: one malformed item spoils the whole field',
    file: 'headers/structured.ts',
    from: 'if (!isWhole) scanner.skipMember(start)',
    to: 'if (!isWhole) break',
    tests: ['headers/structured.test.ts'],
  },
  {
    name: 'headers: a comma in quotes ends an item',
    file: 'headers/structured.ts',
    from: "if (char === ',' && !quoted) return",
    to: "if (char === ',') return",
    tests: ['headers/structured.test.ts'],
  },
  {
    name: 'headers: the end of an open quote is looked for again from every comma',
    file: 'headers/structured.ts',
    from: "else if (char === '\\\\' && quoted) this.at++\n    }",
    to: "else if (char === '\\\\' && quoted) this.at++\n    }\n    this.at = start\n    this.run(/[^,]/)",
    tests: ['headers/structured.test.ts'],
  },
  {
    name: 'headers: a field is read however long it is',
    file: 'headers/structured.ts',
    from: 'Math.min(text.length, LONGEST_FIELD)',
    to: 'text.length',
    tests: ['headers/structured.test.ts'],
  },
  {
    name: 'headers: a number that the cut divides is read by half',
    file: 'headers/structured.ts',
    from: 'if (isWhole && !scanner.isAtCut())',
    to: 'if (isWhole)',
    tests: ['headers/structured.test.ts'],
  },
  {
    name: 'headers: a list is read however many items it has',
    file: 'headers/structured.ts',
    from: 'count < MOST_MEMBERS && scanner',
    to: 'scanner',
    tests: ['headers/structured.test.ts'],
  },
  {
    name: 'headers: negative seconds are zero',
    file: 'headers/times.ts',
    from: 'return ms >= 0 && ms <= LONGEST_MS ? ms : undefined',
    to: 'return ms <= LONGEST_MS ? Math.max(0, ms) : undefined',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: negative counts are zero',
    file: 'headers/parse.ts',
    from: "'number' && bare.value >= 0 ? Math.floor(bare.value)",
    to: "'number' ? Math.max(0, Math.floor(bare.value))",
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: a reset in milliseconds is read as seconds',
    file: 'headers/times.ts',
    from: 'if (value > 1e12) return untilMs(value, nowMs)\n  ',
    to: '',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: a reset that is an instant is read as a delay',
    file: 'headers/times.ts',
    from: 'value > 1e9 ? untilMs(value * 1000, nowMs) : durationMs(value)',
    to: 'durationMs(value)',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: a client is told to wait for centuries',
    file: 'headers/times.ts',
    from: 'Math.min(YEAR_MS, Math.ceil(Number(seconds)) * 1000)',
    to: 'Math.ceil(Number(seconds)) * 1000',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: a wait of 1.5 seconds is over after one',
    file: 'headers/times.ts',
    from: 'Math.ceil(Number(seconds)) * 1000',
    to: 'Math.floor(Number(seconds)) * 1000',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: a day that does not exist is a date',
    file: 'headers/times.ts',
    from: 'midnight.getUTCDate() !== day || ',
    to: '',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: the clock of the client decides what a date of the server means',
    file: 'headers/parse.ts',
    from: "parseHttpDate(read('date'), nowMs) ?? nowMs",
    to: 'nowMs',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: of several waits the first is obeyed',
    file: 'headers/parse.ts',
    from: 'retryAfterMs: Math.max(...waits)',
    to: 'retryAfterMs: waits[0]',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: the comma in a date divides it',
    file: 'headers/parse.ts',
    from: 'last !== undefined && /^(?:mon',
    to: "last === '' && /^(?:mon",
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: names of one policy differ by case',
    file: 'headers/parse.ts',
    from: 'const name = item.value.toLowerCase()',
    to: 'const name = item.value',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: the effective window goes unread',
    file: 'headers/parse.ts',
    from: "params.get('t') ?? params.get('w')",
    to: "params.get('t')",
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: what is unknown of a state hides its policy',
    file: 'headers/parse.ts',
    from: 'if (entry[key] !== undefined) found',
    to: 'found',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: a window is guessed where two policies have the same limit',
    file: 'headers/parse.ts',
    from: "isSame ? quota : 'several'",
    to: 'quota',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: the field lines of two servers become one limit',
    file: 'headers/parse.ts',
    from: 'if (lines.at(-1)?.has(member.key) !== false)',
    to: 'if (lines.length === 0)',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'headers: an instant is trusted more than a delay',
    file: 'headers/parse.ts',
    from: 'after[row] ?? reset[row]',
    to: 'reset[row] ?? after[row]',
    tests: ['headers/parse.test.ts'],
  },
  {
    name: 'rules: a glob for a folder leaves out the folder itself',
    package: 'server',
    file: 'config/glob.ts',
    from: 'path === start || path.startsWith(below)',
    to: 'path.startsWith(below)',
    tests: ['config/glob.test.ts'],
  },
  {
    name: 'rules: a glob for a folder takes its neighbours of the same beginning',
    package: 'server',
    file: 'config/glob.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
    from: 'const below = `${start}/`',
    to: 'const below = start',
    tests: ['config/glob.test.ts'],
  },
  {
    name: 'rules: a * in a glob goes beyond its segment',
    package: 'server',
    file: 'config/glob.ts',
    from: "const matches = sequence(glob.slice(1).split('/'))",
    to: "const matches = sequence([glob.slice(1)].flatMap((text) => (text.includes('**') ? text.split('/') : [text])))",
    tests: ['config/glob.test.ts'],
  },
  {
    name: 'rules: a glob is compared as it is spelled, not as paths are',
    package: 'server',
    file: 'config/glob.ts',
    from: 'variants(glob).map(inOneSpelling)',
    to: 'variants(glob).map((text) => text)',
    tests: ['config/glob.test.ts'],
  },
  {
    name: 'rules: *.example.com takes example.com too',
    package: 'server',
    file: 'config/glob.ts',
    from: "if (labels[0] === '*') labels.splice(1, 0, ANY_DEPTH)",
    to: "if (labels[0] === '*') labels[0] = ANY_DEPTH",
    tests: ['config/glob.test.ts'],
  },
  {
    name: 'rules: an unknown key is passed over',
    package: 'server',
    file: 'config/fields.ts',
    from: 'return z.strictObject(shape,',
    to: 'return z.object(shape,',
    tests: ['config/busted.test.ts'],
  },
  {
    name: 'rules: the environment loses to the file',
    package: 'server',
    file: 'config/environment.ts',
    from: '{ ...inner, [second]: value }',
    to: '{ [second]: value, ...inner }',
    tests: ['config/load.test.ts'],
  },
  {
    name: 'rules: an empty variable unsets what the file says',
    package: 'server',
    file: 'config/environment.ts',
    from: "if (text === undefined || text === '') continue",
    to: 'if (text === undefined) continue',
    tests: ['config/load.test.ts'],
  },
  {
    name: 'rules: a limit of an included file replaces one of the same name',
    package: 'server',
    file: 'config/load.ts',
    from: 'if (first !== undefined) problems.push(twice(name, first, source))',
    to: 'if (first === source) problems.push(twice(name, first, source))',
    tests: ['config/load.test.ts'],
  },
  {
    name: 'rules: of several faults the first alone is told',
    package: 'server',
    file: 'config/issues.ts',
    from: 'issues.slice(0, MOST_PROBLEMS).flatMap',
    to: 'issues.slice(0, 1).flatMap',
    tests: ['config/busted.test.ts'],
  },
  {
    name: 'rules: a password stands in a message',
    package: 'server',
    file: 'config/issues.ts',
    from: 'const isSecret = SECRET.test(String(path.at(-1)))',
    to: "const isSecret = SECRET.test('')",
    tests: ['config/busted.test.ts'],
  },
  {
    name: 'rules: the place in a limit text is lost',
    package: 'server',
    file: 'config/offset.ts',
    from: 'return text.startsWith(value, at + start) ? start + offset : 0',
    to: 'return text.startsWith(value, at + start) ? 0 : 0',
    tests: ['config/busted.test.ts'],
  },
  {
    name: 'rules: an alias that holds itself is followed',
    package: 'server',
    file: 'config/inspect.ts',
    from: 'if (around.has(source))',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
    to: 'if (around.has(`${source} `))',
    tests: ['config/busted.test.ts'],
  },
  {
    name: 'rules: everybody is trusted',
    package: 'server',
    file: 'config/cidr.ts',
    from: 'const WIDEST = 7',
    to: 'const WIDEST = 0',
    tests: ['config/cidr.test.ts'],
  },
  {
    name: 'rules: a limit hides one on more requests',
    package: 'server',
    file: 'config/narrower.ts',
    from: '(narrow?.is?.every(isIn) ?? false)',
    to: '(narrow?.is?.every(isIn) ?? true)',
    tests: ['config/warnings.test.ts'],
  },
  {
    name: 'rules: what is only observed hides what is enforced',
    package: 'server',
    file: 'config/shadows.ts',
    from: "a.mode === 'enforce' && a.enforcePercent === 100",
    to: 'a.enforcePercent === 100',
    tests: ['config/warnings.test.ts'],
  },
  {
    name: 'rules: of two limits that are the same both are told to go',
    package: 'server',
    file: 'config/shadows.ts',
    from: '(j < i || !hides(limit, each))',
    to: '(j < i || hides(limit, each))',
    tests: ['config/warnings.test.ts'],
  },
  {
    name: 'rules: the rate of a limit is that of its burst',
    package: 'server',
    file: 'config/limit-check.ts',
    from: 'limit: withoutBurst(options.limit)',
    to: 'limit: options.limit',
    tests: ['config/warnings.test.ts'],
  },
]

const root = fileURLToPath(new URL('..', import.meta.url))
export const pathOf = ({ package: name = 'headgate', file }: Pick<Mutant, 'package' | 'file'>) =>
  `${root}packages/${name}/src/${file}`

function isKilled(mutant: Mutant): string | undefined {
  const path = pathOf(mutant)
  const original = readFileSync(path, 'utf8')
  try {
    writeFileSync(
      path,
      original.replace(mutant.from, () => mutant.to),
    )
    const tests = mutant.tests.map((file) => pathOf({ ...mutant, file }))
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
