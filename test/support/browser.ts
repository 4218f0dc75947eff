import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { countBrowser } from './cpu-times.ts'

/**
 * Where Chromium may be: CHROMIUM_PATH, or the paths that distributions use. The headless shell is Chromium without its own
 * windows, and takes two thirds of the CPU time.
 */
const PLACES = [
  process.env.CHROMIUM_PATH,
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
]

export const browserPath = (): string | undefined =>
  PLACES.find(path => path !== undefined && existsSync(path))

export async function startBrowser(args: readonly string[] = []): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: browserPath() as string,
    headless: true,
    args: [...FLAGS, ...args],
  })
  const close = browser.close.bind(browser)
  browser.close = async () => {
    countBrowser()
    await close()
  }
  return browser
}

export type Wishes = {
  readonly theme?: 'light' | 'dark'
  readonly language?: 'en' | 'zh-CN'
  readonly width?: number
  readonly height?: number
}

/** What no page may do in any test. */
export type Watched = { readonly faults: string[] }

/**
 * A new browser context that records script errors, policy violations and requests to other hosts as faults.
 */
export async function visit(
  browser: Browser,
  origin: string,
  { theme = 'light', language = 'en', width = 1280, height = 800 }: Wishes = {},
): Promise<{ context: BrowserContext; page: Page } & Watched> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
    locale: language,
    timezoneId: 'UTC',
  })
  await context.addInitScript(
    `localStorage.setItem('sluice.preferences', JSON.stringify({ language: '${language}', pageSize: 20, ...JSON.parse(localStorage.getItem('sluice.preferences') ?? '{}') }))`,
  )
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', error => faults.push(`error: ${error.message}`))
  page.on('console', message => {
    // The page itself shows a refused request; the browser's console line about it is not a fault.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
      faults.push(`console: ${message.text()}`)
  })
  page.on('request', request => {
    const { origin: asked, protocol } = new URL(request.url())
    if (protocol.startsWith('http') && asked !== origin) faults.push(`request to ${asked}`)
  })
  return { context, page, faults }
}

export async function signIn(page: Page, address: string, user: { username: string; password: string }) {
  await page.goto(`${address}/sign-in`)
  await page.locator('input[name=username]').fill(user.username)
  await page.locator('input[name=password]').fill(user.password)
  await page.locator('button[type=submit]').click()
  await page.locator('#main h1').waitFor()
}
