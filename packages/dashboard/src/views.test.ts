import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import type { Instance } from '../../server/test/service.ts'
import { buildDashboard } from '../build.ts'
import { hasChromium, newTab, startBrowser, type Tab } from '../test/chromium.ts'
import { admin, service, take, WRITE } from '../test/service.ts'
import { runChaos } from './chaos/run.ts'
import { algorithms, runLane } from './playground/run.ts'
import { columnsOf } from './playground/traffic.ts'

describe.skipIf(!hasChromium)('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    await buildDashboard()
    browser = await startBrowser()
  })
  afterAll(() => browser?.close())

  async function enter(running: Instance, hash = '#/'): Promise<Tab> {
    const tab = await newTab(browser)
    await tab.page.goto(`${running.adminUrl}/#token=${WRITE}`)
    await tab.page.getByText('live', { exact: true }).waitFor()
    await tab.page.goto(`${running.adminUrl}/${hash}`)
    return tab
  }

  const cells = async (page: Page, name: string) =>
    (await page.getByRole('row', { name: new RegExp(`^${name} `) }).innerText()).split(/\s*\t\s*/)

  const labels = async (page: Page) =>
    Promise.all((await page.locator('.lane svg').all()).map((lane) => lane.getAttribute('aria-label')))

  test('traffic is told per limit while it happens: allowed, denied, would be denied', async () => {
    const running = await service()
    const { page, problems } = await enter(running)
    await page.getByText('Nobody was denied while this page was open.').waitFor()
    expect(await take(running.url, 'sk_live_0123', 20)).toBe(5)
    // Five of twenty pass; the other limit would let two of them pass, and only watches.
    await until('the share of denials', async () => (await cells(page, 'per-key')).at(-1) === '75%' || undefined)
    expect((await cells(page, 'watched')).at(-1)).toBe('90%')
    expect((await cells(page, 'exports')).at(-1)).toBe('–')
    const drawn = (outcome: string) => page.locator(`.chart path.${outcome}`).getAttribute('d')
    for (const outcome of ['allowed', 'denied', 'observed']) expect(await drawn(outcome), outcome).toMatch(/^M/)
    expect(await page.getByText(/per-key sk_l….* times/).innerText()).not.toContain('sk_live_0123')
    // Who comes later sees what happened before.
    await admin(running.adminUrl, 'PUT', 'limits/watched/mode', { body: '{"mode":"enforce","enforcePercent":40}' })
    const other = await enter(running)
    await until('another page to know', async () => (await cells(other.page, 'per-key')).at(-1) === '75%' || undefined)
    for (const each of [page, other.page]) await each.getByText('watched: mode enforce for 40% of keys').waitFor()
    expect([...problems, ...other.problems]).toEqual([])
  })

  test('of very many limits some are shown, and any can be found', async () => {
    const limits = Array.from({ length: 300 }, (_, i) => `  limit-${i}: { limit: 100/min, by: [api-key] }`).join('\n')
    const running = await service(limits)
    const { page, problems } = await enter(running)
    await page.getByText('Of 300 limits, 40 shown').waitFor()
    await page.getByLabel(/name contains/).fill('limit-299')
    await page.getByRole('link', { name: 'limit-299' }).click()
    await page.getByRole('heading', { name: 'limit-299' }).waitFor()
    expect(problems).toEqual([])
  })

  test('the keys that ask most: masked, and as they are for those who may', async () => {
    const running = await service()
    await take(running.url, 'sk_live_0123', 8)
    const { page, problems } = await enter(running, '#/keys?limit=per-key')
    await page.getByText('sk_l…').first().waitFor()
    expect(await page.locator('main').innerText()).not.toContain('sk_live_0123')
    await page.getByRole('button', { name: 'Show keys' }).click()
    await page.getByRole('link', { name: 'sk_live_0123' }).click()
    await page.getByRole('heading', { name: 'sk_live_0123' }).waitFor()
    await page.getByText('left of 5', { exact: true }).waitFor()
    const { entries } = await admin(running.adminUrl, 'GET', 'audit')
    expect(entries[0]).toMatchObject({ what: 'reveal', limit: 'per-key' })
    expect(problems).toEqual([])
  })

  test('a key is looked up, blocked, let go, given more, and reset', async () => {
    const running = await service()
    await take(running.url, 'ann', 5)
    const { page, problems } = await enter(running, '#/keys')
    await page.getByLabel('Limit', { exact: true }).selectOption('per-key')
    await page.getByLabel('api-key').fill('ann')
    await page.getByRole('button', { name: 'Look up' }).click()
    await page.getByText('the next request is over the limit').waitFor()

    const panel = (title: string) =>
      page.locator('.panel', { has: page.getByRole('heading', { name: title, exact: true }) })
    await panel('Reset').getByRole('button', { name: 'Reset' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click()
    await page.getByText('the next request passes').waitFor()
    expect(await take(running.url, 'ann', 1)).toBe(1)

    await panel('Block').getByLabel('For').selectOption('5 minutes')
    await panel('Block').getByLabel('Reason').fill('too loud')
    await panel('Block').getByRole('button', { name: 'Block', exact: true }).click()
    await page.getByText(/Blocked for .* by write 127\.0\.0\.1: too loud/).waitFor()
    expect(await take(running.url, 'ann', 1)).toBe(0)
    await page.getByRole('button', { name: 'Lift the block' }).click()
    await page.getByText(/Blocked for/).waitFor({ state: 'detached' })

    await panel('Another limit for a time').getByLabel('Limit').fill('10 a minute')
    await page.getByRole('button', { name: 'Override' }).click()
    await page
      .getByRole('alert')
      .getByText(/10 a minute/)
      .waitFor()
    await panel('Another limit for a time').getByLabel('Limit').fill('100/min')
    await panel('Another limit for a time').getByLabel('Reason').fill('a sale')
    await page.getByRole('button', { name: 'Override' }).click()
    await page.getByText(/Override to 100\/min for .*: a sale/).waitFor()
    expect(await take(running.url, 'ann', 20)).toBe(20)

    await page.goto(`${running.adminUrl}/#/keys`)
    await page.getByRole('cell', { name: '100/min' }).waitFor()
    await page.getByRole('button', { name: 'Lift' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Lift' }).click()
    await page.getByText('No key is treated otherwise than the rules say.').waitFor()
    expect((await admin(running.adminUrl, 'GET', 'overrides')).total).toBe(0)
    expect(problems.filter((text) => !text.includes('400'))).toEqual([])
  })

  test('a key of several parts, and one under every tier', async () => {
    const running = await service()
    await take(running.url, 'a/b', 2, '/export/1')
    const { page } = await enter(
      running,
      `#/keys/exports/${encodeURIComponent('a/b')}/${encodeURIComponent('/export/**')}`,
    )
    await page.getByText('2 used.').waitFor()
    await page.goto(`${running.adminUrl}/#/keys/plan/ann`)
    await page.getByText('left of 50', { exact: true }).waitFor()
    await page.getByText('left of 5', { exact: true }).waitFor()
  })

  test('the mode of a limit: observe, and enforce for some', async () => {
    const running = await service()
    const { page, problems } = await enter(running, '#/limits/per-key')
    await page.getByText('Observe', { exact: true }).click()
    await page.getByRole('button', { name: 'Set mode' }).click()
    await page.getByText('per-key').first().waitFor()
    await page.locator('.panel .pill', { hasText: 'observe' }).waitFor()
    expect(await take(running.url, 'ann', 20)).toBe(20)
    await page.getByText('Enforce', { exact: true }).click()
    await page.getByRole('slider').focus()
    for (let i = 0; i < 3; i++) await page.keyboard.press('PageDown')
    await page.getByRole('button', { name: 'Set mode' }).click()
    await page.locator('.panel .pill', { hasText: /enforce \d+%/ }).waitFor()
    const { limits } = await admin(running.adminUrl, 'GET', 'limits')
    expect(limits[0]).toMatchObject({
      name: 'per-key',
      mode: 'enforce',
      inRules: { mode: 'enforce', enforcePercent: 100 },
    })
    expect(limits[0].enforcePercent).toBeLessThan(100)
    expect(problems).toEqual([])
  })

  test('rules are checked while they are written, compared with requests of late, and saved', async () => {
    const running = await service()
    const { page, problems } = await enter(running)
    await take(running.url, 'ann', 20)
    await page.goto(`${running.adminUrl}/#/rules`)
    const editor = page.getByLabel('Rules')
    const text = await editor.inputValue()
    expect(text).toContain('per-key: { limit: 5/min')

    await editor.fill(text.replace('limit: 5/min', 'limt: 5/min'))
    const [line] = text.split('\n').flatMap((each, i) => (each.includes('per-key') ? [i + 1] : []))
    await page.getByRole('button', { name: `rules.yaml:${line}:14` }).click()
    const caret = () => page.evaluate('document.activeElement.selectionStart')
    await until('the caret', async () => (await caret()) === text.indexOf('limit: 5/min') || undefined)
    await page.getByText('did you mean "limit"?').waitFor()
    expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
    expect(await page.locator('.gutter .error').innerText()).toBe(String(line))

    await editor.fill(text.replace('limit: 5/min', 'limit: 12/min'))
    await page.getByText('5/min → 12/min').waitFor()
    await page.getByText(/Of 20 requests since .*, these rules would have refused 8, those that hold 15/).waitFor()
    expect((await cells(page, 'per-key')).map((cell) => cell.trim())).toEqual(['per-key', '20', '15', '8'])
    await page.getByText('plan is left out: the tiers of callers are not known.').waitFor()
    expect(await page.locator('.diff .removed').innerText()).toContain('limit: 5/min')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Generation 2 holds.').waitFor()
    expect(await take(running.url, 'bob', 20)).toBe(12)
    expect(problems).toEqual([])
  })

  test('rules with secrets are masked, and can be changed by who asks for them', async () => {
    const tier = 'identify: { apiKey: header:x-api-key, tier: { url: "http://127.0.0.1:9/?token=hunter2" } }'
    const running = await service('  per-key: { limit: 5/min, by: [api-key] }', tier)
    const { page, problems } = await enter(running, '#/rules')
    const editor = page.getByLabel('Rules')
    await page.getByText('Secrets are masked here').waitFor()
    expect(await editor.inputValue()).not.toContain('hunter2')
    await editor.fill((await editor.inputValue()).replace('5/min', '7/min'))
    expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Load with secrets' }).click()
    await page.getByText('Secrets are masked here').waitFor({ state: 'detached' })
    await editor.fill((await editor.inputValue()).replace('5/min', '7/min'))
    await page.getByText('5/min → 7/min').waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Generation 2 holds.').waitFor()
    expect(running.service.rules.rules.identify.tier).toMatchObject({ url: 'http://127.0.0.1:9/?token=hunter2' })
    expect((await admin(running.adminUrl, 'GET', 'audit')).entries.map(({ what }: { what: string }) => what)).toContain(
      'reveal',
    )
    expect(problems.filter((text) => !text.includes('400'))).toEqual([])
  })

  test('the playground runs the engine of the service, and a link brings the same', async () => {
    const running = await service()
    const { page, problems } = await enter(running, '#/playground?limit=10&per=10s&traffic=boundary')
    await page.locator('.lane').first().waitFor()
    const limit = { limit: 10, per: '10s' }
    const expected = algorithms.map((name) => runLane(limit, name, columnsOf('boundary', 10)))
    expect(await labels(page)).toEqual(
      expected.map(
        (lane) => `${lane.algorithm}: ${lane.total} admitted, ${lane.denied} denied, at most ${lane.worst} in 10 s`,
      ),
    )
    await page.getByRole('slider').focus()
    for (let i = 0; i < 9; i++) await page.keyboard.press('ArrowUp')
    await page.getByText('29 requests of one caller').waitFor()
    const box = await page.locator('.draw').boundingBox()
    if (box === null) throw new Error('nowhere to draw')
    await page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.5)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width * 0.8, box.y + box.height * 0.2, { steps: 8 })
    await page.mouse.up()
    const drawn = await labels(page)
    expect(drawn).not.toEqual(expected)
    expect(page.url()).toMatch(/draw=[0-9a-z]{60}$/)
    expect(page.url()).not.toContain(WRITE)
    const other = await enter(running, new URL(page.url()).hash)
    await other.page.locator('.lane').first().waitFor()
    expect(await labels(other.page)).toEqual(drawn)
    await page.getByLabel('Per').fill('10 parsecs')
    await page
      .getByRole('alert')
      .getByText(/parsecs/)
      .waitFor()
    expect([...problems, ...other.problems]).toEqual([])
  })

  test('chaos: a seed comes to the same end as elsewhere, and a mistake in lending is caught', async () => {
    const running = await service()
    const { page, problems, requests } = await enter(running)
    expect(requests.some((each) => each.includes('chaos'))).toBe(false) // loaded when it is wanted
    await page.goto(`${running.adminUrl}/#/chaos?mode=lease&seed=36`)
    const { report } = await runChaos({ seed: 36, mode: 'lease', protocol: 'right' })
    const { worst, bound } = report.overAdmission
    expect(worst).toBeGreaterThan(0)
    await page.getByText(`${worst} over, within ${bound}`).waitFor()
    await page.getByText(`${worst}, at most ${bound}`, { exact: true }).waitFor()
    await page.getByText(report.decisions.asked.toLocaleString('en'), { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Next seed' }).click()
    await page.getByRole('heading', { name: 'Seed 37' }).waitFor()
    expect(page.url()).toContain('seed=37')
    await page.getByLabel('Seed').fill('3')
    await page.getByLabel('Seed').press('Enter')
    await page.getByRole('heading', { name: 'Seed 3', exact: true }).waitFor()
    await page.getByLabel('Lending').selectOption('debit-only')
    await page.getByText('a bound was broken').waitFor()
    await page
      .getByRole('alert')
      .getByText(/: \d+ units, where at most \d+ may be/)
      .first()
      .waitFor()
    await page.getByRole('button', { name: 'Run 40 seeds' }).click()
    await page.getByText(/\d+ broke a bound/).waitFor()
    expect(problems).toEqual([])
  })
})
