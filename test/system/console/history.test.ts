import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser } from 'playwright-core'
import { follow, signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { skipWithout } from '../../support/programs.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }
const ADMIN = { username: 'ada', password: 'password of ada' }
/** A directory that gets screenshots of the page. */
const PICTURES = process.env.SLUICE_PICTURES
/** Every language, theme and width once; for pictures, all of them together. */
const LOOKS =
  PICTURES === undefined
    ? ([
        { language: 'en', theme: 'light', width: 1440 },
        { language: 'zh-CN', theme: 'dark', width: 390 },
      ] as const)
    : (['en', 'zh-CN'] as const).flatMap(language =>
        (['light', 'dark'] as const).flatMap(theme =>
          ([1440, 390] as const).map(width => ({ language, theme, width })),
        ),
      )

function describeHistory(): void {
  let browser: Browser
  let server: ConsoleServer
  let good = 0
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    const must = async (method: string, path: string, body?: unknown) => {
      const reply = await server.api(method, path, body, { headers: { 'x-sluice-reason': 'set-up' } })
      assert.equal(reply.status, 200, reply.text)
      return reply.body.data
    }
    await must('POST', '/api/user/', { ...ADMIN, role: 10 })
    const channel = { name: 'main', type: 1, key: 'sk-history-canary', models: ['gpt-4o', 'gpt-4o-mini'] }
    const { id } = await must('POST', '/api/channel/', channel)
    await must('POST', '/api/alias/', { name: 'fast', target: 'gpt-4o-mini' })
    good = (await must('GET', '/api/config/revision/')).items[0].revision
    await must('PUT', '/api/setting/', { attempts: 9 })
    await must('DELETE', `/api/channel/${id}`)
  })
  after(async () => {
    await server.close()
    await browser.close()
  })

  it('shows revisions, previews a rollback and makes it', async () => {
    const { page, context, faults } = await visit(browser, server.origin)
    await signIn(page, server.url, ROOT)
    await page.goto(`${server.url}/history`)
    await page.getByText('Setting attempts').waitFor()
    await page.goto(`${server.url}/history?revision=${good}`)
    const panel = page.locator('aside[data-panel]')
    await panel.getByText('Alias fast').waitFor()
    await panel.getByText('set-up').waitFor()
    await panel.getByRole('button', { name: 'Roll back to this revision' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Channel main').waitFor()
    await dialog.getByText('is restored without keys').waitFor()
    await dialog.getByLabel('Reason').fill('wrong numbers')
    await dialog.getByRole('button', { name: 'Roll back' }).click()
    await page.getByText(`Configuration of revision ${good} restored`).waitFor()
    await page.getByText(`Rollback to revision ${good}: wrong numbers`).first().waitFor()
    assert.deepEqual(faults, [])
    await context.close()
    const { items } = (await server.api('GET', '/api/channel/')).body.data
    assert.deepEqual([items[0].name, items[0].status, items[0].keys], ['main', 2, []])
  })

  it('offers an administrator no rollback', async () => {
    const { page, context, faults } = await visit(browser, server.origin)
    await signIn(page, server.url, ADMIN)
    await page.goto(`${server.url}/history?revision=${good}`)
    await page.getByText('Alias fast').first().waitFor()
    assert.equal(await page.getByRole('button', { name: 'Roll back to this revision' }).count(), 0)
    assert.deepEqual(faults, [])
    await context.close()
  })

  for (const { language, theme, width } of LOOKS)
    it(`fits ${width} px in ${language}, ${theme}`, async () => {
      const { page, context, faults } = await visit(browser, server.origin, {
        theme,
        language,
        width,
        height: 900,
      })
      await signIn(page, server.url, ROOT)
      await page.goto(`${server.url}/history`)
      await page.locator('h1').waitFor()
      for (const [name, path] of [
        ['list', '/history'],
        ['panel', `/history?revision=${good}`],
        ['dialog', `/history?revision=${good - 1}`],
      ] as const) {
        await follow(page, path)
        await page
          .getByText(/attempts|fast|gpt-4o/)
          .first()
          .waitFor({ state: 'attached' })
        if (name === 'dialog') {
          await page.locator('aside[data-panel] section button').first().click()
          await page.locator('[data-preview] li').first().waitFor()
        }
        const excess = await page.evaluate(
          'document.documentElement.scrollWidth - document.documentElement.clientWidth',
        )
        assert.equal(excess, 0, path)
        if (PICTURES !== undefined)
          await page.screenshot({ path: `${PICTURES}/history-${name}-${language}-${theme}-${width}.png` })
      }
      assert.deepEqual(faults, [])
      await context.close()
    })
}

describe(
  'the configuration history in the console (docs/reference/console.md: Pages)',
  { skip: skipWithout(import.meta.filename, 'chromium') },
  describeHistory,
)
