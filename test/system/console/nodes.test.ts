import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser } from 'playwright-core'
import { signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { skipWithout } from '../../support/programs.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }

/** What a change returns while a node does not respond. */
const UNCONFIRMED = {
  success: true,
  message: '',
  data: { nodes: { confirmed: 2, waiting: [{ id: 'a1b2c3d4-e5f6', until: 1_800_000_000 }] } },
}

function describeNodes(): void {
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

  it('shows each node with its state, and asks before it drains one', async () => {
    const { page, context, faults } = await visit(browser, server.origin)
    await signIn(page, server.url, ROOT)
    const node = {
      id: 'a1b2c3d4-e5f6',
      name: 'west',
      address: '10.0.0.7:3000',
      version: '0.1.0',
      state: 'up',
      heartbeat_time: 1_799_999_000,
      fenced_time: 1_799_999_080,
      applied: 40,
      position: 42,
      leased: '1.25',
      in_flight: 3,
    }
    const others = [
      { ...node, id: '00000000-0001', name: 'east', state: 'silent', applied: 42 },
      { ...node, id: '00000000-0002', name: 'south', state: 'fenced', applied: 42 },
    ]
    await page.route('**/api/node/', route =>
      route.fulfill({ json: { success: true, message: '', data: [node, ...others] } }),
    )
    await page.goto(`${server.url}/nodes`)
    const row = page.getByRole('row', { name: /west/ })
    await row.getByText('Up').waitFor()
    await row.getByText('2 behind').waitFor()
    await page.getByRole('row', { name: /east/ }).getByText('Silent').waitFor()
    await page.getByText('Fenced at').waitFor()
    await page.getByRole('button', { name: 'Retire node south' }).waitFor()
    await page.getByRole('button', { name: 'Drain node west' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('it finishes running requests').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    assert.deepEqual(faults, [])
    await context.close()
  })

  it('says which nodes have not confirmed a change', async () => {
    const { page, context, faults } = await visit(browser, server.origin)
    await signIn(page, server.url, ROOT)
    await page.route('**/api/setting/', route =>
      route.request().method() === 'PUT'
        ? route.fulfill({ status: 202, json: UNCONFIRMED })
        : route.continue(),
    )
    await page.goto(`${server.url}/settings`)
    await page.getByRole('switch').first().click()
    const save = page.getByRole('button', { name: /Save/ })
    if (await save.count()) await save.first().click()
    await page.getByText(/2 nodes confirmed; a1b2c3d4-e5f6 did not respond/).waitFor()
    assert.deepEqual(faults, [])
    await context.close()
  })
}

describe('the nodes in the console', { skip: skipWithout(import.meta.filename, 'chromium') }, describeNodes)
