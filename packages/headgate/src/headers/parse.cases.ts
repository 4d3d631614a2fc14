import type { Policy } from './parse.ts'

/** When the responses of all cases arrive. */
export const NOW = Date.UTC(2026, 1, 3, 4, 5, 6)
const EPOCH = NOW / 1000

type Row = readonly [what: string, fields: Record<string, string>, policies: readonly Policy[]]

/** Drafts from -08 on, and what is proposed after -11. */
export const ietf: readonly Row[] = [
  [
    'one policy of two',
    { RateLimit: '"burst";r=50;t=30', 'RateLimit-Policy': '"burst";q=100;w=60,"daily";q=1000;w=86400' },
    [
      { name: 'burst', limit: 100, remaining: 50, windowMs: 60_000, resetAfterMs: 30_000, source: 'ietf' },
      { name: 'daily', limit: 1000, windowMs: 86_400_000, source: 'ietf' },
    ],
  ],
  [
    'a partition key and blanks',
    { RateLimit: '"100-in-1min"; r=99; t=60', 'RateLimit-Policy': '"100-in-1min"; q=100; w=60; pk=:ZmFkYzNh:' },
    [
      {
        name: '100-in-1min',
        limit: 100,
        remaining: 99,
        windowMs: 60_000,
        resetAfterMs: 60_000,
        partition: 'ZmFkYzNh',
        source: 'ietf',
      },
    ],
  ],
  [
    'states in another order than policies',
    { RateLimit: '"b";r=1, "a";r=2', 'RateLimit-Policy': '"a";q=10, "b";q=20' },
    [
      { name: 'b', limit: 20, remaining: 1, source: 'ietf' },
      { name: 'a', limit: 10, remaining: 2, source: 'ietf' },
    ],
  ],
  [
    'tokens, capitals, and cost, with windows of two kinds',
    { RateLimit: 'Default;a=50;w=30;c=2', 'RateLimit-Policy': '"default";q=100;w=60' },
    [{ name: 'Default', limit: 100, remaining: 50, windowMs: 60_000, resetAfterMs: 30_000, cost: 2, source: 'ietf' }],
  ],
  [
    'units',
    {
      'RateLimit-Policy':
        '"a";q=9;qu="concurrent-requests", "b";q=1;qu="request", c;q=2;qu=content-bytes, "d";q=3;qu=7',
    },
    [
      { name: 'a', limit: 9, unit: 'concurrent-requests', source: 'ietf' },
      { name: 'b', limit: 1, unit: 'requests', source: 'ietf' },
      { name: 'c', limit: 2, unit: 'content-bytes', source: 'ietf' },
      { name: 'd', limit: 3, source: 'ietf' },
    ],
  ],
  [
    'one malformed item among good ones',
    { RateLimit: '"a";r=5;t=1, "b";r=;t=2, c;r=7', 'RateLimit-Policy': '"a";q=10;w=1, ("b" "c");q=1' },
    [
      { name: 'a', limit: 10, remaining: 5, windowMs: 1000, resetAfterMs: 1000, source: 'ietf' },
      { name: 'c', remaining: 7, source: 'ietf' },
    ],
  ],
  [
    'values that make no sense as unknown, not as zero',
    {
      RateLimit: '"a";r=-1;t=-5, "b";r=3;t=999999999999999, "c";r="5";t=?1, "d";r=1;t=1.5',
      'RateLimit-Policy': '"a";q=10;w=0, "b";q=-1;w=-60, "c"',
    },
    [
      { name: 'a', limit: 10, source: 'ietf' },
      { name: 'b', remaining: 3, source: 'ietf' },
      { name: 'd', remaining: 1, resetAfterMs: 1500, source: 'ietf' },
    ],
  ],
  [
    'the fields of two servers that use one name',
    {
      RateLimit: '"default";r=5;t=1, "default";r=900;t=60',
      'RateLimit-Policy': '"default";q=10;w=1, "default";q=999;w=60',
    },
    [
      { name: 'default', limit: 10, remaining: 5, windowMs: 1000, resetAfterMs: 1000, source: 'ietf' },
      { name: 'default', limit: 999, remaining: 900, windowMs: 60_000, resetAfterMs: 60_000, source: 'ietf' },
    ],
  ],
]

/** Drafts up to -07. */
export const drafts: readonly Row[] = [
  [
    'draft 7',
    { RateLimit: 'limit=100, remaining=50, reset=5', 'RateLimit-Policy': '100;w=60' },
    [{ limit: 100, remaining: 50, windowMs: 60_000, resetAfterMs: 5000, source: 'draft-7' }],
  ],
  [
    'draft 7 of two servers',
    {
      RateLimit: 'limit=10, remaining=5, reset=1, limit=999, remaining=900, reset=60',
      'RateLimit-Policy': '10;w=1, 999;w=60',
    },
    [
      { limit: 10, remaining: 5, windowMs: 1000, resetAfterMs: 1000, source: 'draft-7' },
      { limit: 999, remaining: 900, windowMs: 60_000, resetAfterMs: 60_000, source: 'draft-7' },
    ],
  ],
  [
    'draft 7 without a limit, under its only policy',
    { RateLimit: 'remaining=50', 'RateLimit-Policy': '100;w=60;comment="x"' },
    [{ limit: 100, remaining: 50, windowMs: 60_000, source: 'draft-7' }],
  ],
  ['draft 7 with nonsense', { RateLimit: 'limit=lots, remaining=-1, reset, limit;r=x' }, []],
  [
    'drafts 4 to 6',
    {
      'RateLimit-Limit': '10',
      'RateLimit-Remaining': '9',
      'RateLimit-Reset': '50',
      'RateLimit-Policy': '10;w=1, 1000;w=3600',
    },
    [
      { limit: 10, remaining: 9, windowMs: 1000, resetAfterMs: 50_000, source: 'draft-6' },
      { limit: 1000, windowMs: 3_600_000, source: 'draft-6' },
    ],
  ],
  [
    'older drafts, which list policies behind the limit',
    { 'RateLimit-Limit': '100, 100;w=60, 5000;window=3600', 'RateLimit-Remaining': '0', 'RateLimit-Reset': '7' },
    [
      { limit: 100, remaining: 0, windowMs: 60_000, resetAfterMs: 7000, source: 'draft-6' },
      { limit: 5000, windowMs: 3_600_000, source: 'draft-6' },
    ],
  ],
  [
    'no window where two policies have the same limit',
    { 'RateLimit-Limit': '10', 'RateLimit-Remaining': '9', 'RateLimit-Policy': '10;w=1, 10;w=60' },
    [
      { limit: 10, remaining: 9, source: 'draft-6' },
      { limit: 10, windowMs: 1000, source: 'draft-6' },
      { limit: 10, windowMs: 60_000, source: 'draft-6' },
    ],
  ],
  [
    'an instant in the three fields',
    {
      'RateLimit-Limit': '600',
      'RateLimit-Observed': '1',
      'RateLimit-Remaining': '599',
      'RateLimit-Reset': `${EPOCH + 60}`,
    },
    [{ limit: 600, remaining: 599, resetAfterMs: 60_000, source: 'draft-6' }],
  ],
]

const reset = (value: string, resetAfterMs?: number, more: Record<string, string> = {}): Row => [
  `a reset of "${value}"${more.Date ? ` on ${more.Date}` : ''}`,
  { 'X-RateLimit-Remaining': '1', 'X-RateLimit-Reset': value, ...more },
  [{ remaining: 1, ...(resetAfterMs !== undefined && { resetAfterMs }), source: 'legacy' }],
]

export const legacy: readonly Row[] = [
  [
    'epoch seconds and a resource',
    {
      'X-RateLimit-Limit': '5000',
      'X-RateLimit-Remaining': '4987',
      'X-RateLimit-Used': '13',
      'X-RateLimit-Reset': `${EPOCH + 3600}`,
      'X-RateLimit-Resource': 'core',
    },
    [{ name: 'core', limit: 5000, remaining: 4987, resetAfterMs: 3_600_000, source: 'legacy' }],
  ],
  [
    'a delay with decimals before an instant, and a bucket',
    {
      'X-RateLimit-Limit': '5',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': `${EPOCH + 9}.123`,
      'X-RateLimit-Reset-After': '1.001',
      'X-RateLimit-Bucket': 'abcd1234',
    },
    [{ name: 'abcd1234', limit: 5, remaining: 0, resetAfterMs: 1001, source: 'legacy' }],
  ],
  [
    'the spelling with a dash',
    { 'X-Rate-Limit-Limit': '900', 'X-Rate-Limit-Remaining': '899', 'X-Rate-Limit-Reset': `${EPOCH + 900}` },
    [{ limit: 900, remaining: 899, resetAfterMs: 900_000, source: 'legacy' }],
  ],
  [
    'policies behind the limit',
    {
      'X-RateLimit-Limit': '10, 10;w=1;name="per-ip", 100;w=60',
      'X-RateLimit-Remaining': '9',
      'X-RateLimit-Reset': '1',
    },
    [
      { limit: 10, remaining: 9, windowMs: 1000, resetAfterMs: 1000, source: 'legacy' },
      { limit: 100, windowMs: 60_000, source: 'legacy' },
    ],
  ],
  [
    'joined field lines of two servers',
    {
      'X-RateLimit-Limit': '10, 1000',
      'X-RateLimit-Remaining': '3,n/a',
      'X-RateLimit-Reset': 'Tue, 03 Feb 2026 04:05:16 GMT, Tue, 03 Feb 2026 05:05:06 GMT',
    },
    [
      { limit: 10, remaining: 3, resetAfterMs: 10_000, source: 'legacy' },
      { limit: 1000, resetAfterMs: 3_600_000, source: 'legacy' },
    ],
  ],
  [
    'values that make no sense as unknown, not as zero',
    { 'X-RateLimit-Limit': '-1', 'X-RateLimit-Remaining': '-1', 'X-RateLimit-Reset': '0', 'X-RateLimit-Resource': 'x' },
    [{ name: 'x', resetAfterMs: 0, source: 'legacy' }],
  ],
  ['words', { 'X-RateLimit-Limit': 'unlimited', 'X-RateLimit-Remaining': '', 'X-RateLimit-Reset': 'soon' }, []],
  reset('30', 30_000),
  reset('0.25', 250),
  reset('1000000000', 1e12),
  reset(`${EPOCH + 30}`, 30_000),
  reset(`${EPOCH + 30}.5`, 30_500),
  reset(`${NOW + 1234}`, 1234),
  reset(`${EPOCH - 5}`, 0),
  reset(`${EPOCH - 100_000}`),
  reset(`${NOW}000`),
  reset('9'.repeat(80)),
  reset('2026-02-03T04:05:36Z', 30_000),
  reset('2026-02-03t05:05:36.5+01:00', 30_500),
  reset('2026-02-02 23:05:36-05:00', 30_000),
  reset('2026-02-03T04:05:36'),
  reset('Tue, 03 Feb 2026 04:05:36 GMT', 30_000),
  reset('6m0s', 360_000),
  reset('-5'),
  reset('1e3'),
  reset(`${EPOCH + 30}`, 90_000, { Date: 'Tue, 03 Feb 2026 04:04:06 GMT' }),
  reset(`${EPOCH + 30}`, 30_000, { Date: 'yesterday' }),
]
