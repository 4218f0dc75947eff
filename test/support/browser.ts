import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { countBrowser } from '../runner/cost.ts'
import { installedProgram } from './programs.ts'

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  // A page lives for seconds: compiling and collecting beside it takes more CPU time than it saves, a tenth of all.
  '--js-flags=--no-opt --no-maglev --single-threaded-gc',
]

export async function startBrowser(args: readonly string[] = []): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: installedProgram('chromium'),
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
    const { origin: requestOrigin, protocol } = new URL(request.url())
    if (protocol.startsWith('http') && requestOrigin !== origin) faults.push(`request to ${requestOrigin}`)
  })
  return { context, page, faults }
}

const NO_PAGE = '/no/such/page'
const LEAVE = `(() => {
  for (const button of document.querySelectorAll('section[aria-live] li > button:last-child')) button.click()
  return __TSR_ROUTER__.navigate({ href: '${NO_PAGE}', ignoreBlocker: true })
})()`
const entering = (path: string) => `(() => {
  const { client } = __TSR_ROUTER__.options.context
  client.removeQueries({ type: 'inactive' })
  void client.invalidateQueries()
  return __TSR_ROUTER__.navigate({ href: ${JSON.stringify(path)} })
})()`

/**
 * Opens another page of the console in the same document: a new one takes twice the CPU time. As in a new document, nothing is left
 * of the page before: no typed text, no message and no loaded data.
 */
export async function follow(page: Page, path: string): Promise<void> {
  await page.evaluate(LEAVE)
  await page.getByRole('heading', { name: /Page not found|页面不存在/ }).waitFor()
  await page.locator('section[aria-live] li').first().waitFor({ state: 'detached' })
  await page.evaluate(entering(path))
}

/** Signs in through the API, which takes a third of the time that the form takes. The form has tests of its own. */
export async function signIn(page: Page, address: string, user: { username: string; password: string }) {
  const response = await page.request.post(`${address}/api/user/login`, { data: user })
  if (!response.ok()) throw new Error(`${user.username} could not sign in: ${await response.text()}`)
}
