import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { RULES, startAdmin } from '../../test/admin.ts'

const deploy = new URL('../../../../deploy/', import.meta.url)
const alerts = fileURLToPath(new URL('prometheus/alerts.yaml', deploy))
const dashboard = fileURLToPath(new URL('grafana/headgate.json', deploy))

/** Metrics that exist, and their labels. */
async function metrics(): Promise<Map<string, Set<string>>> {
  const lease = { heldUnits: 1, decided: 1, messages: 1 }
  const stats = () => ({ lease, nodes: 1, lagMs: { sync: 1, regions: 1 } })
  const store = { run: () => Promise.reject(new Error('no')), stats }
  const { ask, telemetry, service } = await startAdmin({ store, rules: `${RULES}overload: {}\n` })
  telemetry.shed('low', 'queue')
  telemetry.shed('low', 'queue', true)
  service.protection?.enter()
  const known = new Map<string, Set<string>>()
  const { text } = await ask('GET', '/metrics', { token: '' })
  for (const [, name = '', labels = ''] of text.matchAll(/^(\w+)(\{.*\})? /gm)) {
    const names = known.get(name) ?? new Set(['job', 'instance'])
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) names.add(label)
    known.set(name, names)
  }
  return known
}

/** What a query asks for: metrics, and labels in braces and after `by`. */
function namesIn(query: string): { metrics: string[]; labels: string[] } {
  const metrics = [...query.matchAll(/headgate_\w+/g)].map(([name]) => name)
  const inBraces = [...query.matchAll(/\{([^}]*)\}/g)].flatMap(([, text = '']) =>
    [...text.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  )
  const grouped = [...query.matchAll(/by \(([^)]*)\)/g)].flatMap(([, text = '']) => text.split(/,\s*/))
  return { metrics, labels: [...inBraces, ...grouped] }
}

interface Panel {
  readonly title: string
  readonly targets: readonly { readonly expr: string }[]
}

function queries(): string[] {
  const { panels, templating } = JSON.parse(readFileSync(dashboard, 'utf8'))
  const variables = templating.list.flatMap(({ type, query }: { type: string; query: string }) =>
    type === 'query' ? [query] : [],
  )
  const { groups } = parse(readFileSync(alerts, 'utf8'))
  const rules = groups.flatMap((group: { rules: { expr: string }[] }) => group.rules.map(({ expr }) => expr))
  return [...panels.flatMap(({ targets }: Panel) => targets.map(({ expr }) => expr)), ...variables, ...rules]
}

describe('dashboard and alerts', () => {
  test('ask only for metrics and labels that exist', async () => {
    const known = await metrics()
    expect(queries().length).toBeGreaterThan(15)
    for (const query of queries()) {
      const { metrics, labels } = namesIn(query)
      expect(metrics, query).not.toEqual([])
      for (const name of metrics) expect([...known.keys()], query).toContain(name)
      for (const label of labels) expect([...(known.get(metrics[0] as string) ?? [])], query).toContain(label)
    }
  })

  test('show every metric there is', async () => {
    const shown = queries().join('\n')
    for (const name of (await metrics()).keys()) expect(shown).toContain(name.replace(/_(bucket|sum|count)$/, ''))
  })

  const promtool = spawnSync('promtool', ['--version']).status === 0
  test.skipIf(!promtool)('promtool understands the alerts (skipped where it is not installed)', () => {
    const { status, stderr } = spawnSync('promtool', ['check', 'rules', alerts], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })
})
