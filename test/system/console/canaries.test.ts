import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser } from 'playwright-core'
import { signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { createApi, ROOT_PASSWORD, ROOT_TOKEN } from '../../support/gateway.ts'
import { skipWithout } from '../../support/programs.ts'
import { createResources } from '../../support/relay.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }

function describeCanaries(): void {
  let browser: Browser
  let server: ConsoleServer
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
  })
  after(async () => {
    await server.close()
    await browser.close()
  })

  it('starts a canary, compares both sides and promotes it', async () => {
    const api = createApi(server.url, ROOT_TOKEN)
    const { serve, newToken, must } = createResources(api, server.simulator.url)
    const { model, channels } = await serve('sim-ok')
    const { key } = await newToken()
    const { page, context, faults } = await visit(browser, server.origin)
    await signIn(page, server.url, ROOT)
    await page.goto(`${server.url}/canaries`)
    await page.getByText('No canaries').waitFor()
    await page.getByRole('button', { name: 'Start canary' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Channel ID').fill(String(channels[0]))
    await dialog.getByLabel('Changes').fill('{"key": "x"}')
    await dialog.getByRole('button', { name: 'Start', exact: true }).click()
    await dialog.getByText('must not be changed by a canary', { exact: false }).waitFor()
    await dialog.getByLabel('Changes').fill('{"weight": 5}')
    await dialog.getByLabel('Share (%)').fill('100')
    await dialog.getByRole('button', { name: 'Start', exact: true }).click()
    const row = page.getByRole('row', { name: new RegExp(model) })
    await row.getByText('Running').waitFor()
    const chat = { model, messages: [{ role: 'user', content: 'Hi' }] }
    await api('POST', '/v1/chat/completions', chat, { token: key })
    await row.click()
    const table = page.locator('[data-comparison]')
    await table.getByRole('row', { name: 'Requests 1 0' }).waitFor()
    await page.getByRole('button', { name: 'Promote' }).click()
    await page.getByRole('dialog').last().getByRole('button', { name: 'Promote' }).click()
    await row.getByText('Promoted').waitFor()
    assert.equal((await must(api('GET', `/api/channel/${channels[0]}`))).weight, 5)
    assert.deepEqual(faults, [])
    await context.close()
  })
}

describe('canaries in the console', { skip: skipWithout(import.meta.filename, 'chromium') }, describeCanaries)
