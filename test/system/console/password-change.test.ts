import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Browser } from 'playwright-core'
import { startBrowser, visit } from '../../support/browser.ts'
import { bcrypt, user } from '../../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES } from '../../support/new-api-source.ts'
import { newDirectory, newGround, run, type Server, settingsOf, startServer } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { writeSqlite } from '../../support/source-database.ts'

const SHORT = '123456'
const LONG = 'a longer password'

function describePasswordChange(): void {
  let browser: Browser
  let server: Server
  before(async () => {
    const from = join(newDirectory(), 'one-api.db')
    const writer = writeSqlite(from)
    await fillSource(writer, NEW_API_TABLES, { users: [user(1, 'kim', { password: bcrypt(SHORT) })] })
    await writer.close()
    const ground = await newGround('sqlite')
    server = await startServer(ground)
    const imported = await run(['import', 'new-api', '--from', from], { env: settingsOf(ground) })
    assert.equal(imported.code, 0, imported.stderr)
    browser = await startBrowser()
  })
  after(async () => {
    await server.stop()
    await browser.close()
  })

  it('requires a user with an imported password that is too short to change it', async () => {
    const { page, context, faults } = await visit(browser, server.url)
    await page.goto(`${server.url}/sign-in?to=/tokens`)
    await page.locator('input[name=username]').fill('kim')
    await page.locator('input[name=password]').fill(SHORT)
    await page.locator('button[type=submit]').click()
    await page.getByRole('heading', { name: 'Change your password' }).waitFor()
    assert.equal(await page.getByRole('navigation').count(), 0)
    await page.getByLabel('Current password').fill(SHORT)
    await page.getByLabel('New password', { exact: true }).fill(LONG)
    await page.getByLabel('Confirm new password').fill(LONG)
    await page.getByRole('button', { name: 'Change password' }).click()
    // A new password ends every session.
    await page.waitForURL(/\/sign-in$/)
    await page.locator('input[name=username]').fill('kim')
    await page.locator('input[name=password]').fill(LONG)
    await page.locator('button[type=submit]').click()
    await page.locator('#main h1').waitFor()
    assert.deepEqual(faults, [])
    await context.close()
  })
}

describe(
  'the console, for imported passwords',
  { skip: skipWithout(import.meta.filename, 'chromium') },
  describePasswordChange,
)
