import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canStartRedis, freePort } from '../../headgate/test/redis-server.ts'
import { until } from '../../headgate/test/until.ts'
import { serve } from '../../server/src/serve.ts'
import { ends, type Instance, ownRedis, rulesOf } from '../../server/test/service.ts'
import { buildDashboard } from '../build.ts'
import { hasChromium, newTab, startBrowser, type Tab } from '../test/chromium.ts'
import { admin, LIMITS, MORE, service, take, tokens, WRITE } from '../test/service.ts'

describe.skipIf(!hasChromium)('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    await buildDashboard()
    browser = await startBrowser()
  })
  afterAll(() => browser?.close())

  async function enter({ adminUrl }: Pick<Instance, 'adminUrl'>, hash = '#/'): Promise<Tab> {
    const tab = await newTab(browser)
    await tab.page.goto(`${adminUrl}/#token=${WRITE}`)
    await tab.page.getByText('live', { exact: true }).waitFor()
    await tab.page.goto(`${adminUrl}/${hash}`)
    return tab
  }

  test('a service that is restarted is found again, and meanwhile figures are said to be old', async () => {
    const adminPort = await freePort()
    const text = rulesOf(LIMITS, MORE).replace('adminPort: 0', `adminPort: ${adminPort}`)
    const start = () => serve({ text, env: tokens })
    const first = await start()
    const adminUrl = `http://127.0.0.1:${adminPort}`
    const { page, problems } = await enter({ adminUrl })
    const over = async () => (await page.getByRole('row', { name: /^per-key / }).innerText()).split(/\s+/).at(-1)
    await take(`http://127.0.0.1:${first.port}`, 'ann', 10)
    await until('figures', async () => (await over()) === '50%' || undefined)
    await first.stop()
    await page.getByText('disconnected').waitFor()
    await page.getByText(/The service does not answer\. Figures are .* old\. Trying again/).waitFor()
    expect(await over()).toBe('50%') // what was known stays
    const second = ends(await start(), (each) => each.stop())
    await page.getByText('live', { exact: true }).waitFor()
    await page.getByText('Figures are').waitFor({ state: 'detached' })
    await take(`http://127.0.0.1:${second.port}`, 'bob', 10)
    await until(
      'new figures',
      async () =>
        ((await over()) === '50%' && (await page.locator('path.denied').first().getAttribute('d')) !== '') || undefined,
    )
    await until(
      'the time between to be unknown',
      async () => (await page.locator('.chart path.unknown').getAttribute('d')) !== '' || undefined,
    )
    expect(problems.filter((each) => !/ERR_|Failed to load/.test(each))).toEqual([])
  })

  test('a tab that nobody sees leaves its connection to others, and knows all when it is seen again', async () => {
    const running = await service()
    const { page, problems } = await enter(running)
    const hide = (hidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true })
        document.dispatchEvent(new Event('visibilitychange'))`)
    await hide(true)
    await page.getByText('connecting', { exact: true }).waitFor()
    await take(running.url, 'ann', 10)
    await admin(running.adminUrl, 'PUT', 'limits/watched/mode', { body: '{"mode":"off"}' })
    await hide(false)
    await page.getByText('live', { exact: true }).waitFor()
    await page.getByText('watched: mode off').waitFor()
    await until('figures', async () => {
      const row = await page.getByRole('row', { name: /^per-key / }).innerText()
      return row.split(/\s+/).at(-1) === '50%' || undefined
    })
    expect(problems).toEqual([])
  })

  test('rules that somebody else has changed meanwhile are not overwritten unseen', async () => {
    const running = await service()
    const { page, problems } = await enter(running, '#/rules')
    const editor = page.getByLabel('Rules')
    await page.getByText('Change something').waitFor()
    const text = await editor.inputValue()
    await editor.fill(text.replace('limit: 5/min', 'limit: 6/min'))
    await page.getByText('5/min → 6/min').waitFor()
    const theirs = text.replace('3/min', '4/min')
    await admin(running.adminUrl, 'PUT', 'rules', { body: theirs, headers: { 'content-type': 'application/yaml' } })
    await page.getByRole('heading', { name: 'Somebody else has changed the rules' }).waitFor()
    await page.locator('.conflict .added', { hasText: '4/min' }).waitFor()
    expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Go on with mine' }).click()
    // Now it is plain that saving would undo what they did.
    await page.getByText('4/min → 3/min').waitFor()
    await editor.fill(theirs.replace('limit: 5/min', 'limit: 6/min'))
    await page.getByText('4/min → 3/min').waitFor({ state: 'detached' })
    await page.getByText('5/min → 6/min').waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Generation 3 holds.').waitFor()
    const { limits } = await admin(running.adminUrl, 'GET', 'limits')
    expect(limits.map(({ definition }: { definition: { limit: unknown } }) => definition.limit)).toMatchObject([
      '6/min',
      '2/min',
      '4/min',
      {},
    ])
    expect(problems).toEqual([])
  })

  test('a save that comes second is refused by the service, and told', async () => {
    const running = await service()
    const { page } = await enter(running, '#/rules')
    await page.getByText('Change something').waitFor()
    const text = await page.getByLabel('Rules').inputValue()
    // The page does not hear of it.
    await page.route('**/admin/v1/events', (route) => route.abort())
    await page.reload()
    await page.getByLabel('Rules').fill(text.replace('limit: 5/min', 'limit: 6/min'))
    await page.getByText('5/min → 6/min').waitFor()
    await admin(running.adminUrl, 'PUT', 'rules', {
      body: text.replace('3/min', '4/min'),
      headers: { 'content-type': 'application/yaml' },
    })
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'Somebody else has changed the rules' }).waitFor()
    expect((await admin(running.adminUrl, 'GET', 'limits')).generation).toBe(2)
    await page.getByRole('button', { name: 'Take theirs' }).click()
    await page.getByText('Change something').waitFor()
    expect(await page.getByLabel('Rules').inputValue()).toContain('4/min')
  })

  test.skipIf(!canStartRedis)(
    'on Redis: what is done here holds on every instance, and an outage is told',
    async () => {
      const redis = await ownRedis()
      const more = `${MORE.replace('timeoutMs: 10000', 'timeoutMs: 200')}\nstore: ${redis.url}`
      const [one, other] = await Promise.all([service(LIMITS, more), service(LIMITS, more)])
      const { page } = await enter(one, '#/keys/per-key/ann')
      await take(other.url, 'ann', 3)
      await page.getByText('3 used.').waitFor()
      await page.locator('.panel', { hasText: 'Block' }).getByRole('button', { name: 'Block', exact: true }).click()
      await page.getByText(/Blocked for/).waitFor()
      expect(await take(other.url, 'ann', 1)).toBe(0)
      await redis.kill()
      await until('the outage to be noticed', async () => {
        await take(one.url, 'bob', 1)
        return (await page.getByText('store down').count()) > 0 || undefined
      })
      await redis.restart()
      await until('the store to be back', async () => {
        await take(one.url, 'bob', 1)
        return (await page.getByText('store down').count()) === 0 || undefined
      })
    },
  )
})
