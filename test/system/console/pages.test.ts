import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page, Request } from 'playwright-core'
import { signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, PAGES, startConsole } from '../../support/console.ts'
import { addContent, type ConsoleContent } from '../../support/console-content.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }
const NEWCOMER = { username: 'ana', password: 'password of ana' }
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
const COLOURS = ['color-contrast', 'link-in-text-block']
const HEIGHT = 800
const DESKTOP = { width: 1440, height: HEIGHT }
/** High enough for every form: axe reports what is under a fixed bar as covered, although it can be scrolled. */
const PHONE = { width: 320, height: 3000 }
const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const WIDTHS = isCampaign ? [320, 375, 768, 1024, 1440, 1920] : [320, 1440]
/** Some checks are made on every page in a campaign, and on every fifth page in `npm test`. With an even step, all of these would be narrow in the same language. */
const SAMPLE_STEP = isCampaign ? 1 : 5
const isSample = (index: number) => index % SAMPLE_STEP === 0

const untilLoaded = (page: Page) => page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })

/** Opens an address in a new document. Waits until the network is idle and no part of the page is loading. */
async function open(page: Page, address: string): Promise<void> {
  await page.goto(address)
  await page.locator('h1').waitFor()
  await page.waitForLoadState('networkidle')
  await untilLoaded(page)
}

/** As long as Playwright waits for an idle network; it does so only for new documents. */
const IDLE_MS = 500

/**
 * Goes from page to page as links do, and waits as `open` does. The document stays the same: axe would be slow in a new one,
 * where none of it is compiled yet.
 */
function createLinks(page: Page) {
  const running = new Set<Request>()
  let lastMs = 0
  const ends = (request: Request) => {
    running.delete(request)
    lastMs = Date.now()
  }
  page.on('request', request => running.add(request))
  page.on('requestfinished', ends)
  page.on('requestfailed', ends)
  return async (path: string): Promise<void> => {
    await page.evaluate(`self.__TSR_ROUTER__.navigate({ href: ${JSON.stringify(path)} })`)
    lastMs = Date.now()
    await page.locator('h1').waitFor()
    await until('the network to be idle', () =>
      running.size === 0 && Date.now() - lastMs >= IDLE_MS ? true : undefined,
    )
    await untilLoaded(page)
    assert.equal(await page.evaluate('location.pathname + location.search'), path)
  }
}

/** The rules on colours depend on the theme but not on the language. */
type Rules = 'all' | 'colours'

async function findings(page: Page, rules: Rules): Promise<string[]> {
  // axe is injected once per document.
  const isThere = await page.evaluate("'axe' in window")
  const builder = isThere ? new AxeBuilder({ page, axeSource: ';' }) : new AxeBuilder({ page })
  // Legacy mode needs no second page to collect results; the console has no frames.
  const axe = builder.setLegacyMode().options({ resultTypes: ['violations'] })
  if (rules === 'colours') axe.withRules(COLOURS)
  else axe.withTags(RULES)
  const { violations } = await axe.analyze()
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`,
  )
}

const LANGUAGES = ['en', 'zh-CN'] as const
type Language = (typeof LANGUAGES)[number]

type Check = { readonly colorScheme: 'light' | 'dark'; readonly rules: Rules }
const CHECKS: Readonly<Record<Language, readonly Check[]>> = {
  en: [
    { colorScheme: 'light', rules: 'all' },
    { colorScheme: 'dark', rules: 'colours' },
  ],
  'zh-CN': [
    { colorScheme: 'dark', rules: 'all' },
    { colorScheme: 'light', rules: 'colours' },
  ],
}

/**
 * A page is checked in one language in a wide window, and in the other in a narrow one. In `npm test`, all rules run on every
 * page in the wide window, and on a sample of the pages in the narrow one too.
 */
function checksOf(language: Language, pageIndex: number) {
  const isWide = language === LANGUAGES[pageIndex % LANGUAGES.length]
  const size = isWide ? DESKTOP : PHONE
  if (isCampaign) return { size, checks: CHECKS[language] }
  return { size, checks: isWide || isSample(pageIndex) ? CHECKS[language].slice(0, 1) : [] }
}

const languageOf = (page: Page) => page.evaluate<Language>('document.documentElement.lang')

/** As if another tab had changed it: the menu takes longer, and a dialog may cover it. */
const chooseLanguage = (page: Page, language: Language) =>
  page.evaluate(`(() => {
    const key = 'sluice.preferences'
    const preferences = JSON.parse(localStorage.getItem(key) ?? '{}')
    localStorage.setItem(key, JSON.stringify({ ...preferences, language: '${language}' }))
    dispatchEvent(new StorageEvent('storage', { key }))
  })()`)

function describePages(): void {
  let browser: Browser
  let server: ConsoleServer
  let content: ConsoleContent
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    content = await addContent(server.url, server.api, server.simulator.url)
  })
  after(async () => {
    await browser.close()
    await server.close()
  })
  const pages = () => [
    ...PAGES,
    `/channels/${content.channelId}`,
    `/channels/${content.channelId}/edit`,
    `/tokens/${content.tokenId}`,
    `/users/${content.userId}`,
    `/usage/${content.requestId}`,
    `/videos/${content.videoId}`,
    `/videos/${content.failedVideoId}`,
    '/prices?edit=gpt-4o',
  ]

  /** The widths that the page does not fit into. The present width is the first, because each change costs a layout. */
  async function excesses(page: Page, widths: readonly number[]): Promise<string[]> {
    const present = page.viewportSize()?.width ?? 0
    const nearestFirst = widths.toSorted((a, b) => Math.abs(a - present) - Math.abs(b - present))
    const tooWide: string[] = []
    for (const width of nearestFirst) {
      await page.setViewportSize({ width, height: HEIGHT })
      // Charts resize shortly after the window.
      const settled = async () => ((await page.evaluate(OVER)) === 0 ? true : undefined)
      await until(`${page.url()} to fit into ${width} pixels`, settled).catch(error =>
        tooWide.push(error.message),
      )
    }
    return tooWide
  }

  /** Accessibility violations of a page in its current language, and untranslated texts. */
  async function look(page: Page, path: string, index: number): Promise<Record<string, string[]>> {
    const byTheme: Record<string, string[]> = {}
    const language = await languageOf(page)
    const { size, checks } = checksOf(language, index)
    for (const { colorScheme, rules } of checks) {
      await page.setViewportSize(size)
      await page.emulateMedia({ colorScheme })
      const problems = await findings(page, rules)
      if (problems.length > 0) byTheme[`${path}, ${colorScheme}`] = problems
    }
    if (language === 'zh-CN') {
      const english = ((await page.evaluate(ENGLISH)) as string[]).filter(text => !NOT_OURS.test(text))
      if (english.length > 0) byTheme[`${path}, not translated`] = english
    }
    assert.equal(await page.locator('h1').count(), 1, path)
    return byTheme
  }

  /** Goes to every page and checks it in both languages. */
  async function walk() {
    const { page, context, faults } = await visit(browser, server.origin, DESKTOP)
    const findingsByPage: Record<Language, Record<string, string[]>> = { en: {}, 'zh-CN': {} }
    const tooWide: string[] = []
    const follow = createLinks(page)

    /** A page opens in the language of the previous page. */
    async function check(index: number, path: string) {
      const opened = await languageOf(page)
      for (const language of [opened, ...LANGUAGES.filter(each => each !== opened)]) {
        if (language !== opened) await chooseLanguage(page, language)
        await page.locator(`html[lang=${language}]`).waitFor()
        Object.assign(findingsByPage[language], await look(page, path, index))
        // English texts are the longer ones.
        if (language === 'en') tooWide.push(...(await excesses(page, WIDTHS)))
      }
    }

    await open(page, `${server.url}/sign-in`)
    await check(0, '/sign-in')
    await signIn(page, server.url, ROOT)
    for (const [index, path] of pages().entries()) {
      await follow(path)
      await check(index, path)
    }
    await context.close()
    return { findingsByPage, faults, tooWide }
  }
  let walking: ReturnType<typeof walk> | undefined
  const walked = () => {
    walking ??= walk()
    return walking
  }

  for (const language of LANGUAGES)
    it(`has no accessibility violation on any page in ${language}`, async () => {
      const { findingsByPage, faults } = await walked()
      assert.deepEqual(findingsByPage[language], {})
      assert.deepEqual(faults, [])
    })

  it('never scrolls sideways, from 320 pixels on', async () => {
    assert.deepEqual((await walked()).tooWide, [])
    // A new user sees the empty states.
    const { page, context } = await visit(browser, server.origin)
    await signIn(page, server.url, NEWCOMER)
    await open(page, `${server.url}/me`)
    const follow = createLinks(page)
    for (const path of ['/', '/usage', '/videos', '/playground', '/tokens', '/models', '/me']) {
      await follow(path)
      assert.deepEqual(await excesses(page, WIDTHS.slice(0, 1)), [])
    }
    await context.close()
  })

  it('opens every page by its address', async () => {
    const { page, context, faults } = await visit(browser, server.origin)
    await signIn(page, server.url, ROOT)
    const documents = new Set<string>()
    for (const [index, path] of pages().entries()) {
      const response = await page.request.get(`${server.url}${path}`, { headers: { accept: 'text/html' } })
      assert.equal(response.status(), 200, path)
      documents.add((await response.text()).replaceAll(/nonce="[^"]*"/g, ''))
      if (!isSample(index)) continue
      await open(page, `${server.url}${path}`)
      assert.equal(await page.locator('h1').count(), 1, path)
    }
    // The page reads its address itself.
    assert.equal(documents.size, 1)
    assert.deepEqual(faults, [])
    await context.close()
  })

  it('shows errors of the gateway page by page, and recovers', async () => {
    const { page, context } = await visit(browser, server.origin)
    await signIn(page, server.url, ROOT)
    await page.route('**/api/token/search*', route =>
      route.fulfill({
        status: 500,
        json: { success: false, code: 'internal_error', message: 'broken on purpose' },
      }),
    )
    await page.goto(`${server.url}/tokens`)
    await page.getByText('broken on purpose').waitFor()
    await page.unroute('**/api/token/search*')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('cell', { name: 'search-backend', exact: true }).waitFor()
    // Each part of a page shows its own error.
    await page.route('**/api/**', route =>
      route.request().url().includes('/api/user/self')
        ? route.continue()
        : route.fulfill({ status: 500, json: { success: false, code: 'internal_error', message: 'broken' } }),
    )
    await page.goto(`${server.url}/`)
    await page.getByRole('alert').first().waitFor()
    for (const part of ['Needs attention', 'Requests', 'Spend by model', 'Latency', 'Top spend'])
      await page.locator('section', { hasText: part }).getByRole('alert').first().waitFor()
    await context.close()
  })
}

/** Names and texts of users and providers, which are not translated. */
const NOT_OURS =
  /Second in line|one model only|Text Embeddings Inference|A calm lake at dawn|The simulator will not make/
/** Visible texts of three or more English words, except code and what a provider wrote. */
const ENGLISH = `(() => {
  const found = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement
    if (!parent.checkVisibility() || parent.closest('code, pre, kbd, q, script, style, textarea')) continue
    if (/[a-z]{2,} [a-z]{2,} [a-z]{2,}/i.test(node.data)) found.push(node.data.trim())
  }
  return found
})()`
const OVER = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'

describe('every page of the console', { skip: skipWithout(import.meta.filename, 'chromium') }, describePages)
