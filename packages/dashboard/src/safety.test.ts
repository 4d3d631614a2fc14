import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Instance } from '../../server/test/service.ts'
import { buildDashboard } from '../build.ts'
import { faultsOf, unseenFocus } from '../test/accessible.ts'
import { hasChromium, newTab, startBrowser, type Tab } from '../test/chromium.ts'
import { admin, READ, service, take, WRITE } from '../test/service.ts'

const HOSTILE = [
  '<img src=x onerror="globalThis.pwned=1">',
  '"><script>globalThis.pwned=2</script>',
  "'; DROP TABLE keys; --",
  'javascript:globalThis.pwned=3',
  '#/limits/per-key?x=%00&y=%',
  '\u202egnp.exe\u0000\u001b[31m',
  '𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ключ 钥匙 🔑',
  'x'.repeat(3_000),
]

describe.skipIf(!hasChromium)('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    await buildDashboard()
    browser = await startBrowser()
  })
  afterAll(() => browser?.close())

  async function enter(running: Instance, token: string, hash = '#/', options = {}): Promise<Tab> {
    const tab = await newTab(browser, options)
    await tab.page.goto(`${running.adminUrl}/#token=${token}`)
    await tab.page.getByText('live', { exact: true }).waitFor()
    await tab.page.goto(`${running.adminUrl}/${hash}`)
    return tab
  }

  test('keys, reasons and rules are shown as text, whatever they say', async () => {
    const running = await service()
    const { page, problems } = await enter(running, WRITE)
    for (const key of HOSTILE) await take(running.url, key.replace(/[^\x20-\x7e]/g, '?'), 7)
    const reason = HOSTILE[0] as string
    for (const key of HOSTILE)
      await admin(running.adminUrl, 'POST', 'blocks', {
        body: JSON.stringify({ limit: 'per-key', key, forMs: 60_000, reason }),
      })
    await page
      .getByText(/Blocked: per-key/)
      .first()
      .waitFor()
    await page.goto(`${running.adminUrl}/#/keys`)
    for (const title of ['Keys that ask most', 'Overrides and blocks'])
      await page.locator('.panel', { hasText: title }).getByRole('button', { name: 'Show keys' }).click()
    for (const key of HOSTILE.slice(0, 4)) await page.getByRole('link', { name: key, exact: true }).first().waitFor()
    await page.getByRole('cell', { name: reason, exact: true }).first().waitFor()
    for (const key of HOSTILE) {
      await page.goto(`${running.adminUrl}/#/keys/per-key/${encodeURIComponent(key)}`)
      await page.getByText(/Blocked for/).waitFor()
      expect(await page.locator('h1').evaluate('document.querySelector("h1").textContent')).toBe(key)
    }
    await page.goto(`${running.adminUrl}/#/rules`)
    await page.getByLabel('Rules').fill(`limits: { '<img src=x onerror="globalThis.pwned=4">': { limit: 1/s } }`)
    await page.locator('.problems li').first().waitFor()
    await page.goto(`${running.adminUrl}/#/limits/${encodeURIComponent(reason)}`)
    await page.getByText('The rules that hold have no limit').waitFor()
    expect(await page.evaluate('globalThis.pwned')).toBe(undefined)
    expect(await page.locator('img, script:not([src]), iframe').count()).toBe(0)
    expect(problems).toEqual([])
  })

  test('keys that browsers take for a step up the path are refused, so no other key is meant', async () => {
    const running = await service()
    const { page, requests } = await enter(running, WRITE, '#/keys/exports/../busy')
    await page.getByText('A browser cannot ask for a key named "." or ".."').waitFor()
    expect(requests.filter((each) => /admin\/v1\/(keys|busy)/.test(each))).toEqual([])
  })

  test('scripts that are not ours do not run, even if they get into the page', async () => {
    const running = await service()
    const { page } = await enter(running, WRITE)
    const inject = `(() => {
      const script = document.createElement('script')
      script.setAttribute('src', 'data:text/javascript,globalThis.pwned=1')
      document.body.append(script)
      document.body.innerHTML = '<img src=x onerror="globalThis.pwned=2">'
    })()`
    await expect(page.evaluate(inject)).rejects.toThrow(/TrustedScriptURL|TrustedHTML/)
    const button = `(() => {
      const button = document.createElement('button')
      Element.prototype.setAttribute.call(button, 'title', 'x')
      button.textContent = 'Inline'
      try { button.setAttribute('onclick', 'globalThis.pwned=3') } catch {}
      document.body.append(button)
      button.click()
    })()`
    await page.evaluate(button)
    expect(await page.evaluate('globalThis.pwned')).toBe(undefined)
    // Nobody else may frame it.
    const frame = await newTab(browser)
    await frame.page.setContent(`<iframe src="${running.adminUrl}/"></iframe>`)
    await expect.poll(() => frame.problems.join()).toMatch(/frame-ancestors/)
  })

  test('a link brings the token, which then is in this tab and nowhere else', async () => {
    const running = await service()
    const { page, requests } = await newTab(browser)
    await page.goto(`${running.adminUrl}/#token=${WRITE}`)
    await page.getByText('live', { exact: true }).waitFor()
    expect(page.url()).toBe(`${running.adminUrl}/#/`)
    const kept =
      'JSON.stringify([Object.values(sessionStorage), Object.values(localStorage), document.cookie, history.length])'
    expect(JSON.parse((await page.evaluate(kept)) as string)).toEqual([[WRITE], [], '', 2])
    for (const request of requests) expect(request).not.toContain(WRITE)
    await page.reload()
    await page.getByText('live', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Admin token').waitFor()
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
  })

  test('a wrong token is told, and another may be tried; nothing was asked for without one', async () => {
    const running = await service()
    const { page, requests } = await newTab(browser)
    await page.goto(`${running.adminUrl}/`)
    await page.getByLabel('Admin token').waitFor()
    expect(requests.filter((each) => each.includes('/admin/'))).toEqual([])
    expect(await faultsOf(page)).toEqual([])
    await page.getByLabel('Admin token').fill('wrong')
    await page.keyboard.press('Enter')
    await page.getByText('The service does not know this token').waitFor()
    expect(requests.filter((each) => each.includes('/admin/'))).toEqual([`GET ${running.adminUrl}/admin/v1/whoami`])
    await page.getByLabel('Admin token').fill(READ)
    await page.keyboard.press('Enter')
    await page.getByText('read only').waitFor()
  })

  test('who may only look is shown nothing to change, and changes nothing', async () => {
    const running = await service()
    await take(running.url, 'sk_live_0123', 7)
    await admin(running.adminUrl, 'POST', 'blocks', { body: '{"limit":"per-key","key":"bob","forMs":60000}' })
    const { page, problems, requests } = await enter(running, READ)
    await page.getByText('read only').waitFor()
    const offers = async (hash: string, there: string) => {
      await page.goto(`${running.adminUrl}/${hash}`)
      await page.getByText(there).first().waitFor()
      return (await page.getByRole('button').allInnerTexts()).filter(
        (name) => !['Log out', 'Skip to content', 'Copy as command'].includes(name),
      )
    }
    expect(await offers('#/', 'per-key')).toEqual([])
    expect(await offers('#/limits/watched', 'The rules say observe')).toEqual(['Look up'])
    expect(await offers('#/keys', 'blocked')).toEqual(['Look up'])
    expect(await offers('#/keys/per-key/sk_live_0123', 'over the limit')).toEqual([])
    expect(await offers('#/rules', 'generation 1')).toEqual([])
    expect(await page.getByLabel('Rules').getAttribute('readonly')).not.toBe(null)
    expect(requests.filter((each) => !each.startsWith('GET '))).toEqual([])
    expect(problems).toEqual([])
  })

  const looks = {
    light: { colorScheme: 'light' },
    dark: { colorScheme: 'dark' },
    phone: { colorScheme: 'dark', viewport: { width: 360, height: 740 }, hasTouch: true },
  } as const
  const views = {
    '#/': 'Denied just now',
    '#/limits/per-key': 'Keys that ask most',
    '#/keys': 'Keys that ask most',
    '#/keys/per-key/ann': 'the next request',
    '#/rules': 'Before you save',
    '#/playground': 'gcra',
    '#/chaos': 'What went wrong',
    '#/nowhere': 'Not found',
  }

  test.each(Object.entries(looks))('every view can be read and used: %s', async (_, options) => {
    const running = await service()
    const { page, problems } = await enter(running, WRITE, '#/', options)
    await take(running.url, 'ann', 9)
    await page.getByText(/per-key a….* times/).waitFor()
    for (const [hash, there] of Object.entries(views)) {
      await page.goto(`${running.adminUrl}/${hash}`)
      await page.getByText(there).first().waitFor()
      expect(await faultsOf(page), hash).toEqual([])
      // A page of one colour packs into next to nothing.
      expect((await page.screenshot()).length, hash).toBeGreaterThan(9_000)
    }
    expect(problems).toEqual([])
  })

  test('the keyboard gets everywhere, and shows where it is', async () => {
    const running = await service()
    await take(running.url, 'ann', 3)
    const { page } = await enter(running, WRITE, '#/limits/per-key')
    await page.getByText('Keys that ask most').waitFor()
    expect(await unseenFocus(page)).toEqual([])
    await page.goto(`${running.adminUrl}/#/playground`)
    await page.locator('.lane').first().waitFor()
    expect(await unseenFocus(page)).toEqual([])
    await page.reload()
    await page.getByText('live', { exact: true }).waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter') // skips what stands above
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
  })
})
