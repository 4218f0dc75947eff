import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { browserPath, signIn, startBrowser, visit } from '../support/browser.ts'
import { type ConsoleServer, PAGES, startConsole } from '../support/console.ts'
import { ROOT_PASSWORD } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { furnish, type Showroom } from '../support/showroom.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }
const NEWCOMER = { username: 'ana', password: 'password of ana' }
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
const COLOURS = ['color-contrast', 'link-in-text-block']
const WIDTH = 1280
const WIDTHS = [320, 375, 768, 1024, 1440, 1920]

/** Loaded when nothing is asked for any more and nothing says that it waits. */
async function open(page: Page, address: string): Promise<void> {
  await page.goto(address)
  await page.locator('h1').waitFor()
  await page.waitForLoadState('networkidle')
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })
}

/** All of axe's rules, or those that colours decide: nothing else of a page depends on the theme. */
async function findings(page: Page, rules: 'all' | 'colours'): Promise<string[]> {
  // What a document was given once it need not read again.
  const isThere = await page.evaluate("'axe' in window")
  const builder = isThere ? new AxeBuilder({ page, axeSource: ';' }) : new AxeBuilder({ page })
  // One document without frames: no second page is needed to gather what was found.
  const axe = builder.setLegacyMode().options({ resultTypes: ['violations'] })
  const { violations } = await (rules === 'all' ? axe.withTags(RULES) : axe.withRules(COLOURS)).analyze()
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`,
  )
}

/** Which theme all of axe's rules look at, and which only those that colours decide. */
const THEMES = { en: ['light', 'dark'], 'zh-CN': ['dark', 'light'] } as const
type Language = keyof typeof THEMES
const LANGUAGES = Object.keys(THEMES) as Language[]
const NAMES = { en: 'English', 'zh-CN': '简体中文' } as const satisfies Record<Language, string>

const languageOf = (page: Page) => page.evaluate<Language>('document.documentElement.lang')

/** By the menu, as people do it; by their wish and a second visit where something lies over the menu. */
async function speak(page: Page, language: Language): Promise<void> {
  if ((await languageOf(page)) === language) return
  if ((await page.getByRole('dialog').count()) > 0) {
    await page.evaluate(`localStorage.setItem('sluice.preferences', JSON.stringify({
      ...JSON.parse(localStorage.getItem('sluice.preferences')), language: '${language}' }))`)
    return open(page, page.url())
  }
  await page.locator('button[aria-haspopup=menu][aria-label$=": root"]').press('Enter')
  await page.getByRole('menuitem', { name: NAMES[language] }).press('Enter')
  await page.locator(`html[lang=${language}]`).waitFor()
  await page.getByRole('menu').waitFor({ state: 'detached' })
}

function describePages(): void {
  let browser: Browser
  let server: ConsoleServer
  let room: Showroom
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    room = await furnish(server.url, server.api, server.simulator.url)
  })
  after(async () => {
    await browser.close()
    await server.close()
  })
  const pages = () => [
    ...PAGES,
    `/channels/${room.channelId}`,
    `/channels/${room.channelId}/edit`,
    `/tokens/${room.tokenId}`,
    `/users/${room.userId}`,
    `/usage/${room.requestId}`,
    `/videos/${room.videoId}`,
    `/videos/${room.failedVideoId}`,
    '/prices?edit=gpt-4o',
  ]

  async function fits(page: Page, widths: readonly number[]): Promise<void> {
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 })
      // Charts take their new width a moment after the window has it.
      const settled = async () => ((await page.evaluate(OVER)) === 0 ? true : undefined)
      await until(`${page.url()} to fit into ${width} pixels`, settled)
    }
  }

  /** What axe says of a page in the language it is in, and in both themes. */
  async function look(page: Page, path: string, language: Language): Promise<Record<string, string[]>> {
    const found: Record<string, string[]> = {}
    for (const [index, colorScheme] of THEMES[language].entries()) {
      await page.emulateMedia({ colorScheme })
      const problems = await findings(page, index === 0 ? 'all' : 'colours')
      if (problems.length > 0) found[`${path}, ${colorScheme}`] = problems
    }
    if (language === 'zh-CN') {
      const english = ((await page.evaluate(ENGLISH)) as string[]).filter(text => !NOT_OURS.test(text))
      if (english.length > 0) found[`${path}, not translated`] = english
    }
    assert.equal(await page.locator('h1').count(), 1, path)
    assert.equal(await languageOf(page), language)
    return found
  }

  /** Every page is opened once and looked at in both languages; in English also in every width. */
  async function walk() {
    const { page, context, faults } = await visit(browser, server.origin, { width: WIDTH })
    const found: Record<Language, Record<string, string[]>> = { en: {}, 'zh-CN': {} }
    const tooWide: string[] = []
    await signIn(page, server.url, ROOT)
    for (const path of pages()) {
      await open(page, `${server.url}${path}`)
      // The language that a page is opened in is the one that the page before it was left in.
      const opened = await languageOf(page)
      for (const language of [opened, ...LANGUAGES.filter(each => each !== opened)]) {
        await speak(page, language)
        Object.assign(found[language], await look(page, path, language))
        if (language !== 'en') continue
        await fits(page, WIDTHS).catch(error => tooWide.push(error.message))
        await page.setViewportSize({ width: WIDTH, height: 800 })
      }
    }
    await context.close()
    return { found, tooWide, faults }
  }
  let walking: ReturnType<typeof walk> | undefined
  const walked = () => {
    walking ??= walk()
    return walking
  }

  for (const language of LANGUAGES)
    it(`has nothing that axe finds on any page, light and dark, in ${language}`, async () => {
      const visitor = await visit(browser, server.origin, { language })
      await visitor.page.goto(`${server.url}/sign-in`)
      await visitor.page.locator('h1').waitFor()
      assert.deepEqual(await look(visitor.page, '/sign-in', language), {})
      await visitor.context.close()
      const { found, faults } = await walked()
      assert.deepEqual(found[language], {})
      assert.deepEqual([...visitor.faults, ...faults], [])
    })

  it('never scrolls sideways, from 320 pixels on', async () => {
    assert.deepEqual((await walked()).tooWide, [])
    // Somebody who has nothing yet sees what stands in place of the lists.
    const { page, context } = await visit(browser, server.origin)
    await signIn(page, server.url, NEWCOMER)
    for (const path of ['/', '/usage', '/videos', '/playground', '/tokens', '/models', '/me']) {
      await open(page, `${server.url}${path}`)
      await fits(page, WIDTHS.slice(0, 2))
    }
    await context.close()
  })

  it('says so, page by page, when the gateway does not answer, and recovers', async () => {
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
    // Every part of a page fails by itself.
    await page.route('**/api/**', route =>
      route.request().url().includes('/api/user/self')
        ? route.continue()
        : route.fulfill({ status: 500, json: { success: false, code: 'internal_error', message: 'broken' } }),
    )
    await page.goto(`${server.url}/`)
    await page.getByRole('alert').first().waitFor()
    for (const part of ['Needs you', 'Requests', 'Spend by model', 'How long it took', 'Most spent on'])
      await page.locator('section', { hasText: part }).getByRole('alert').first().waitFor()
    await context.close()
  })
}

/** Names and words of people and providers: they are nobody's to translate. */
const NOT_OURS =
  /Second in line|one model only|Text Embeddings Inference|A calm lake at dawn|The simulator will not make/
/** Texts in sight of three English words or more, but for code. */
const ENGLISH = `(() => {
  const found = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement
    if (!parent.checkVisibility() || parent.closest('code, pre, kbd, script, style, textarea')) continue
    if (/[a-z]{2,} [a-z]{2,} [a-z]{2,}/i.test(node.data)) found.push(node.data.trim())
  }
  return found
})()`
const OVER = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'

describe('every page of the console', () => {
  if (browserPath() !== undefined) describePages()
  else
    it('needs Chromium: install it, or name it in CHROMIUM_PATH', () => {
      assert.notEqual(process.env.CI, 'true', 'no browser was found')
      console.log('no browser was found: the pages were not looked at')
    })
})
