// Mistakes in the dashboard, and in what the admin port has for it: see mutants.ts.
import type { Mutant } from './mutants.ts'

const page = 'dashboard' as const
const server = 'server' as const
const views = ['views.test.ts']
const safety = ['safety.test.ts']
const outage = ['outage.test.ts']
const model = ['model.test.ts']
const files = ['admin/dashboard.test.ts']
const preview = ['admin/preview.test.ts']

export const dashboardMutants: readonly Mutant[] = [
  {
    name: 'dashboard: a key named ".." is asked for, which means another one',
    package: page,
    file: 'key-path.ts',
    from: "part === '.' || part === '..'",
    to: "part === '.'",
    tests: model,
  },
  {
    name: 'dashboard: the token stays in the address',
    package: page,
    file: 'session.ts',
    from: 'history.replaceState(null,',
    to: 'void ((..._: unknown[]) => {})(null,',
    tests: safety,
  },
  {
    name: 'dashboard: the token is kept when the tab is closed',
    package: page,
    file: 'session.ts',
    from: 'sessionStorage.setItem(NAME, token)',
    to: 'localStorage.setItem(NAME, token)\n    sessionStorage.setItem(NAME, token)',
    tests: safety,
  },
  {
    name: 'dashboard: who may only look is offered to block',
    package: page,
    file: 'views/key.tsx',
    from: "scope === 'write' && <Acts",
    to: '<Acts',
    tests: safety,
  },
  {
    name: 'dashboard: two ticks in one second count as one',
    package: page,
    file: 'series.ts',
    from: 'known[name] = sum([known[name] ?? NONE, scaled(tally, share)])',
    to: 'known[name] = scaled(tally, share)',
    tests: model,
  },
  {
    name: 'dashboard: what was not heard counts as silence',
    package: page,
    file: 'series.ts',
    from: 'this.#gaps.push({ fromMs, toMs })',
    to: 'this.#gaps.push({ fromMs: toMs, toMs })',
    tests: model,
  },
  {
    name: 'dashboard: time goes on while the service is gone, and figures fade',
    package: page,
    file: 'live.ts',
    from: "(this.connection === 'lost' ? this.heardMs : Date.now())",
    to: "(this.connection === 'lost' ? Date.now() + 3_600_000 : Date.now())",
    tests: outage,
  },
  {
    name: 'dashboard: a stream that ends is not opened again',
    package: page,
    file: 'stream.ts',
    from: "    if (signal.aborted) return\n    listener.onConnection('lost')",
    to: "    listener.onConnection('lost')\n    if (lastId !== '') return",
    tests: outage,
  },
  {
    name: 'dashboard: rules are saved over whatever holds',
    package: page,
    file: 'api.ts',
    from: "'If-Match': tag",
    to: "'If-Match': '*'",
    tests: outage,
  },
  {
    name: 'dashboard: rules with problems can be saved',
    package: page,
    file: 'views/rules.tsx',
    from: 'problems.length > 0 || check === undefined || action.isBusy',
    to: 'action.isBusy',
    tests: views,
  },
  {
    name: 'dashboard: the playground forgets the burst of buckets',
    package: page,
    file: 'playground/run.ts',
    from: '...(burst !== undefined && hasBurst(algorithm) && { burst })',
    to: '...(burst !== undefined && !hasBurst(algorithm) && { burst })',
    tests: ['playground/run.test.ts'],
  },
  {
    name: 'dashboard: the bucket that is drawn does not leak',
    package: page,
    file: 'chaos/run.ts',
    from: 'Math.max(0, level - (atUs - lastUs) * perUs) + cost',
    to: 'level + cost',
    tests: ['chaos/run.test.ts'],
  },
  {
    name: 'dashboard: other sites may frame it',
    package: server,
    file: 'admin/dashboard.ts',
    from: '  "frame-ancestors \'none\'",\n',
    to: '',
    tests: files,
  },
  {
    name: 'dashboard: the page itself is kept for good, so a new one is never seen',
    package: server,
    file: 'admin/dashboard.ts',
    from: "isPage ? 'no-cache'",
    to: "isPage ? 'public, max-age=31536000'",
    tests: files,
  },
  {
    name: 'preview: requests are remembered though nobody looks on',
    package: server,
    file: 'admin/recent.ts',
    from: 'if (this.#isWatched()) this.#add(decision)',
    to: 'if (this.#isWatched() || true) this.#add(decision)',
    tests: preview,
  },
  {
    name: 'preview: requests are kept when the last reader has gone',
    package: server,
    file: 'admin/recent.ts',
    from: 'else if (this.#sinceMs !== undefined) this.#keep([])',
    to: '',
    tests: preview,
  },
  {
    name: 'preview: a limit that counts other keys is judged by the old ones',
    package: server,
    file: 'admin/preview.ts',
    from: 'JSON.stringify([a.by, a.when]) === JSON.stringify([b.by, b.when])',
    to: 'a !== b',
    tests: preview,
  },
  {
    name: 'preview: all that is asked happens at one instant',
    package: server,
    file: 'admin/preview.ts',
    from: 'nowMs = Math.max(nowMs, request.atMs)',
    to: 'nowMs ||= request.atMs',
    tests: preview,
  },
  {
    name: 'preview: what is only watched is counted as refused',
    package: server,
    file: 'admin/preview.ts',
    from: "counted[observed ? 'observed' : 'denied']++",
    to: 'counted.denied++',
    tests: preview,
  },
]
