import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { isSigned, type Receiver, startReceiver } from '../../support/alert-receiver.ts'
import { signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { skipWithout } from '../../support/programs.ts'

const ADMIN = { username: 'ada', password: 'password of ada' }

function describeAlerts(): void {
  let browser: Browser
  let server: ConsoleServer
  let receiver: Receiver
  let page: Page
  let faults: readonly string[]
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    receiver = await startReceiver()
    ;({ page, faults } = await visit(browser, server.origin))
    const { status, text } = await server.api('POST', '/api/user/', { ...ADMIN, role: 10 })
    assert.equal(status, 200, text)
    await signIn(page, server.url, ADMIN)
  })
  after(async () => {
    await receiver.close()
    await server.close()
    await browser.close()
  })

  async function onPage(path: string, work: (page: Page) => Promise<void>): Promise<void> {
    await page.goto(`${server.url}${path}`)
    await work(page)
    assert.deepEqual(faults, [])
  }

  it('adds a webhook, shows its secret once, and shows the result of a test', async () => {
    await onPage('/alerts?tab=targets', async page => {
      await page.getByRole('button', { name: 'Add target' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Name').fill('Ops')
      await dialog.getByLabel('URL').fill('nonsense')
      await dialog.getByRole('button', { name: 'Save' }).click()
      await dialog.getByRole('alert').first().waitFor()
      await dialog.getByLabel('URL').fill(`${receiver.url}/hook`)
      await dialog.getByLabel('Group for (s)').fill('0')
      await dialog.getByRole('button', { name: 'Save' }).click()
      const secret = await dialog.locator('[data-secret]').innerText()
      assert.match(secret, /^whsec_/)
      await dialog.getByRole('button', { name: 'Close' }).click()

      await page.getByRole('button', { name: 'Test target Ops' }).click()
      await dialog.getByText('The receiver accepted the test message.').waitFor()
      assert.ok(receiver.received[0] && isSigned(receiver.received[0], secret))
      receiver.answer(503, 'closed for today')
      await dialog.getByRole('button', { name: 'Test again' }).click()
      await dialog.getByText('status 503: closed for today').waitFor()
      receiver.answer(200)
      await dialog.getByRole('button', { name: 'Close' }).last().click()
    })
  })

  it('changes a rule, and keeps what the form does not show', async () => {
    await onPage('/alerts', async page => {
      await page.getByRole('row', { name: /^Error rate/ }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Threshold (%)').fill('7.5')
      await dialog.getByLabel('Quiet from').fill('22:00')
      await dialog.getByLabel('Quiet until').fill('06:30')
      await dialog.getByLabel('Time zone').fill('Europe/Berlin')
      await dialog.getByLabel('Only these', { exact: true }).check()
      await dialog.getByLabel('Ops').check()
      await dialog.getByRole('button', { name: 'Save' }).click()
      await dialog.waitFor({ state: 'detached' })
    })
    const rules = (await server.api('GET', '/api/alert/rule/?page_size=100')).body.data.items
    const targets = (await server.api('GET', '/api/alert/target/')).body.data.items
    const rule = rules.find(({ kind }: { kind: string }) => kind === 'error_rate')
    assert.deepEqual(
      [rule.threshold, rule.window_seconds, rule.quiet_from, rule.quiet_to, rule.time_zone, rule.target_ids],
      [7.5, 300, '22:00', '06:30', 'Europe/Berlin', [targets[0].id]],
    )
  })

  it('adds a rule with the defaults of its kind', async () => {
    await onPage('/alerts', async page => {
      await page.getByRole('button', { name: 'Add rule' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Kind').selectOption('Low disk space')
      assert.equal(await dialog.getByLabel('Threshold (MiB)').inputValue(), '2048')
      await dialog.getByLabel('Name').fill('Disk of the archive')
      await dialog.getByLabel('Threshold (MiB)').fill('999999999')
      await dialog.getByRole('button', { name: 'Save' }).click()
      await dialog.waitFor({ state: 'detached' })
      // The disk of any machine has less: the alert fires, and the message arrives.
      await page.getByText(/^Firing now: \d+$/).waitFor()
      await page.getByRole('tab', { name: 'Deliveries' }).click()
      await page.getByRole('cell', { name: 'Sent', exact: true }).first().waitFor()
    })
  })
}

describe('the alerts in the console', { skip: skipWithout(import.meta.filename, 'chromium') }, describeAlerts)
