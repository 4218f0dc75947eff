import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { browserPath, signIn, startBrowser, visit } from './support/browser.ts'
import { type ConsoleServer, PAGES, startConsole } from './support/console.ts'
import { ROOT_PASSWORD } from './support/gateway.ts'
import { until } from './support/process.ts'
import { furnish, type Showroom } from './support/showroom.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }
const NEWCOMER = { username: 'ana', password: 'password of ana' }
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
const COLOURS = ['color-contrast', 'link-in-text-block']
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
  // One document without frames: no second page is needed to gather what was found.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] })
  const { violations } = await (rules === 'all' ? axe.withTags(RULES) : axe.withRules(COLOURS)).analyze()
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`,
  )
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

  for (const [language, first, second] of [
    ['en', 'light', 'dark'],
    ['zh-CN', 'dark', 'light'],
  ] as const)
    it(`has nothing that axe finds on any page, light and dark, in ${language}`, async () => {
      const { page, context, faults } = await visit(browser, server.origin, { language })
      const found: Record<string, string[]> = {}
      const look = async (path: string) => {
        for (const [colorScheme, rules] of [
          [first, 'all'],
          [second, 'colours'],
        ] as const) {
          await page.emulateMedia({ colorScheme })
          const problems = await findings(page, rules)
          if (problems.length > 0) found[`${path}, ${colorScheme}`] = problems
        }
      }
      await page.goto(`${server.url}/sign-in`)
      await page.locator('h1').waitFor()
      await look('/sign-in')
      await signIn(page, server.url, ROOT)
      for (const path of pages()) {
        await open(page, `${server.url}${path}`)
        await look(path)
        if (language === 'zh-CN') {
          const english = ((await page.evaluate(ENGLISH)) as string[]).filter(text => !NAMES.test(text))
          if (english.length > 0) found[`${path}, not translated`] = english
        }
        assert.equal(await page.locator('h1').count(), 1, path)
        assert.equal(await page.evaluate('document.documentElement.lang'), language)
      }
      assert.deepEqual(found, {})
      assert.deepEqual(faults, [])
      await context.close()
    })

  it('never scrolls sideways, from 320 pixels on', async () => {
    // Somebody who has nothing yet sees what stands in place of the lists.
    for (const [who, paths, widths] of [
      [ROOT, pages(), WIDTHS],
      [NEWCOMER, ['/', '/usage', '/videos', '/playground', '/tokens', '/models', '/me'], WIDTHS.slice(0, 2)],
    ] as const) {
      const { page, context } = await visit(browser, server.origin)
      await signIn(page, server.url, who)
      for (const path of paths) {
        await open(page, `${server.url}${path}`)
        for (const width of widths) {
          await page.setViewportSize({ width, height: 800 })
          // Charts take their new width a moment after the window has it.
          const settled = async () => ((await page.evaluate(OVER)) === 0 ? true : undefined)
          await until(`${path} to fit into ${width} pixels`, settled)
        }
      }
      await context.close()
    }
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
    await context.close()
  })
}

/** Names and words of people and providers: they are nobody's to translate. */
const NAMES =
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
