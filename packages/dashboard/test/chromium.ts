import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const MAC = [
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/** CHROMIUM_PATH, else one on the PATH. */
const path =
  process.env.CHROMIUM_PATH ||
  [
    ...(process.env.PATH ?? '').split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name))),
    ...MAC,
  ].find((file) => existsSync(file))

/** For `describe.skipIf(!…)`: `npm test` has said by then what to install. */
export const hasChromium = path !== undefined

if (!hasChromium && process.env.CI === 'true')
  throw new Error('no Chromium at CHROMIUM_PATH or on the PATH: in CI its tests are not skipped')

/** Without what would look for hosts of its own. */
const ARGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export function startBrowser(): Promise<Browser> {
  const isRoot = process.getuid?.() === 0
  return chromium.launch({ executablePath: path as string, args: isRoot ? [...ARGS, '--no-sandbox'] : ARGS })
}

export interface Tab {
  readonly page: Page
  /** What the page complained about: errors, and what its policy does not allow. */
  readonly problems: string[]
  /** What it asked for, as `GET http://…`. */
  readonly requests: string[]
}

/** A page in a profile of its own, which ends with the test. */
export async function newTab(browser: Browser, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  const [problems, requests]: [string[], string[]] = [[], []]
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => requests.push(`${request.method()} ${request.url()}`))
  return { page, problems, requests }
}
