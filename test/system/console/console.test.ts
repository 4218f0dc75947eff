import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import type { Browser, Dialog, Page } from 'playwright-core'
import { follow, signIn, startBrowser, visit } from '../../support/browser.ts'
import { retryingFetch } from '../../support/client.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { addContent, type ConsoleContent } from '../../support/console-content.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'

const run = promisify(execFile)
const ROOT = { username: 'root', password: ROOT_PASSWORD }

/** Records the write requests of a page. */
function writesOf(page: Page) {
  const writes: { method: string; path: string; body: unknown }[] = []
  page.on('request', request => {
    if (request.method() === 'GET') return
    const { pathname } = new URL(request.url())
    writes.push({ method: request.method(), path: pathname, body: request.postDataJSON() })
  })
  return writes
}

function describeConsole(): void {
  let browser: Browser
  before(async () => {
    // A host name that is not a loopback address: without TLS the browser offers no clipboard API there, as on a LAN.
    browser = await startBrowser(['--host-resolver-rules=MAP gateway.test 127.0.0.1'])
  })
  after(() => browser.close())

  describe('the first run (docs/reference/console.md: First run)', () => {
    let server: ConsoleServer
    before(async () => {
      server = await startConsole({ SLUICE_ROOT_PASSWORD: '' })
    })
    after(() => server.close())

    it('leads from the printed password to a response in a shell in twelve actions', async () => {
      const password = /shown only once\):\s+(\S+)/.exec(server.stdout())?.[1] ?? ''
      const { page, context, faults } = await visit(browser, server.origin)
      await context.grantPermissions(['clipboard-read', 'clipboard-write'])
      let actions = 0
      const act = async (done: Promise<unknown>) => {
        actions += 1
        await done
      }
      await page.goto(server.url)
      await act(page.locator('input[name=password]').fill(password))
      await act(page.keyboard.press('Enter'))
      await act(page.getByRole('link', { name: 'Get started' }).click())
      const connect = page.locator('[data-step="1"]')
      await act(connect.getByRole('list').getByRole('button').first().click())
      await act(connect.getByText('Custom base URL').click())
      await act(connect.getByLabel('Base URL').fill(server.simulator.url))
      await act(connect.getByLabel('API key').fill('sk-simulated'))
      await act(connect.getByRole('button', { name: 'Fetch models' }).click())
      await connect.getByText(/of them have a price/).waitFor()
      await act(connect.getByRole('button', { name: 'Test and enable' }).click())
      await connect.getByText('The channel is enabled.').waitFor()
      const token = page.locator('[data-step="2"]')
      await act(token.getByRole('button', { name: 'Create token' }).click())
      await act(token.getByRole('button', { name: 'Copy code' }).click())
      const copied = await page.evaluate('navigator.clipboard.readText()')
      assert.equal(copied, await token.locator('[data-snippet]').textContent())
      const { stdout } = await run('sh', ['-c', copied as string])
      assert.ok(JSON.parse(stdout).choices[0].message.content)
      const request = page.locator('[data-step="3"]')
      await request.getByRole('link', { name: 'View request' }).first().waitFor()
      assert.ok(actions <= 12, `${actions} actions`)
      await request.getByRole('link', { name: 'View request' }).first().click()
      await page.getByText(/^Served by /).waitFor()
      assert.deepEqual(faults, [])
      await context.close()
    })
  })

  describe('a running gateway', () => {
    let server: ConsoleServer
    let content: ConsoleContent
    let page: Page
    let faults: readonly string[]
    let close: () => Promise<void>
    before(async () => {
      server = await startConsole()
      content = await addContent(server.url, server.api, server.simulator.url)
      const visited = await visit(browser, server.origin, { width: 1440, height: 900 })
      page = visited.page
      faults = visited.faults
      close = () => visited.context.close()
      await signIn(page, server.url, ROOT)
      await page.goto(`${server.url}/me`)
    })
    after(async () => {
      await close()
      await server.close()
    })

    it('rejects a wrong password without saying which part was wrong', async () => {
      const other = await visit(browser, server.origin)
      await other.page.goto(server.url)
      await other.page.locator('input[name=password]').fill('not the password')
      await other.page.keyboard.press('Enter')
      await other.page.getByText('Wrong username or password.').waitFor()
      assert.equal(await other.page.locator('input[name=username]').inputValue(), 'root')
      await other.context.close()
    })

    it('returns to the requested address after signing in', async () => {
      const other = await visit(browser, server.origin)
      await other.page.goto(`${server.url}/channels?status=2`)
      await other.page.locator('input[name=password]').fill(ROOT_PASSWORD)
      await other.page.keyboard.press('Enter')
      await other.page.getByRole('heading', { level: 1, name: 'Channels' }).waitFor()
      assert.equal(new URL(other.page.url()).search, '?status=2')
      await other.context.close()
    })

    it('adds a mapped name of a new channel to its model list', async () => {
      await follow(page, '/channels/new')
      await page.getByLabel('Search providers').fill('openai')
      await page.keyboard.press('Enter')
      await page.getByLabel('Name', { exact: true }).fill('Made by hand')
      await page.getByLabel('API key', { exact: true }).fill('sk-by-hand')
      await page.getByLabel('Base URL').fill(server.simulator.url)
      await page.getByRole('button', { name: 'Fetch models' }).click()
      await page.getByRole('dialog').getByLabel('gpt-4o', { exact: false }).first().check()
      await page.getByRole('button', { name: /^Add \d+ model/ }).click()
      await page.getByRole('button', { name: 'Add mapping' }).click()
      await page.getByLabel('Requested model').fill('our-model')
      await page.getByLabel('Upstream model').fill('sim-small')
      await page.getByRole('button', { name: 'Save and test' }).click()
      await page.getByRole('complementary').getByRole('heading', { name: 'Made by hand' }).waitFor()
      const { body } = await server.api('GET', '/api/channel/search?keyword=Made')
      const [created] = body.data.items
      assert.ok(created.models.includes('our-model'))
      assert.equal(created.model_mapping['our-model'], 'sim-small')
      assert.ok(created.test_time > 0)
    })

    it('restores a channel form after a reload, without its key, and discards it when the form is left', async () => {
      const edit = `${server.url}/channels/${content.channelId}/edit`
      const name = page.getByLabel('Name', { exact: true })
      await page.goto(edit)
      const saved = await name.inputValue()
      await name.fill('Typed, not saved')
      await page.getByLabel('API key', { exact: true }).fill('sk-typed-not-saved')
      const accept = (dialog: Dialog) => void dialog.accept()
      page.on('dialog', accept)
      await page.reload()
      await page.getByText('Unsaved changes restored').waitFor()
      assert.equal(await name.inputValue(), 'Typed, not saved')
      assert.equal(await page.getByLabel('API key', { exact: true }).inputValue(), '')
      const stored = await page.evaluate(() => JSON.stringify(sessionStorage))
      assert.ok(stored.includes('Typed, not saved') && !stored.includes('sk-typed-not-saved'))
      await page.getByRole('button', { name: 'Cancel' }).click()
      await page.getByRole('button', { name: 'Discard changes' }).click()
      await page.goto(edit)
      await name.waitFor()
      assert.equal(await name.inputValue(), saved)
      page.off('dialog', accept)
    })

    it('sends only changed fields, and never a masked key', async () => {
      const writes = writesOf(page)
      await follow(page, `/channels/${content.channelId}/edit`)
      await page.getByLabel('Name', { exact: true }).fill('Primary, renamed')
      await page.getByRole('button', { name: 'Save', exact: true }).click()
      await page.getByText('Primary, renamed saved').waitFor()
      const body = writes.find(({ path, method }) => method === 'PUT' && path === '/api/channel/')?.body
      assert.deepEqual(body, { id: content.channelId, name: 'Primary, renamed' })
    })

    it('reports a concurrent change of the channel, and keeps the fields of both users', async () => {
      await follow(page, `/channels/${content.channelId}/edit`)
      await page.getByLabel('Name', { exact: true }).fill('Primary, by two')
      await server.api('PUT', '/api/channel/', { id: content.channelId, priority: 11 })
      const form = page.getByRole('complementary')
      await form.getByText(/^root changed this channel .*: Priority\./).waitFor()
      await form.getByRole('button', { name: 'Load changes' }).click()
      assert.equal(await form.getByLabel('Priority').inputValue(), '11')
      assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Primary, by two')
      await page.getByRole('button', { name: 'Save', exact: true }).click()
      await page.getByText('Primary, by two saved').waitFor()
      const { name, priority } = (await server.api('GET', `/api/channel/${content.channelId}`)).body.data
      assert.deepEqual([name, priority], ['Primary, by two', 11])
      await server.api('PUT', '/api/channel/', { id: content.channelId, priority: 10 })
    })

    it('asks before it discards typed text', async () => {
      await follow(page, `/channels/${content.channelId}/edit`)
      await page.getByLabel('Notes').or(page.getByText('Advanced')).first().click()
      await page.getByLabel('Notes').fill('half a thought')
      await page.getByRole('button', { name: 'Cancel' }).click()
      const dialog = page.getByRole('dialog', { name: 'Discard unsaved changes?' })
      await dialog.getByRole('button', { name: 'Cancel' }).click()
      assert.equal(await page.getByLabel('Notes').inputValue(), 'half a thought')
      await page.getByRole('button', { name: 'Cancel' }).click()
      await dialog.getByRole('button', { name: 'Discard changes' }).click()
      await page.getByRole('complementary').getByRole('heading', { name: 'Summary' }).waitFor()
    })

    it('changes a priority in place, keeps the order of the rows, and undoes it', async () => {
      await follow(page, '/channels')
      const rows = page.getByRole('table', { name: 'Channels' }).locator('tbody tr')
      await rows.first().waitFor()
      const before = await rows.allTextContents()
      const last = rows.last().getByLabel('Priority')
      const old = await last.inputValue()
      await last.fill('500')
      await page.keyboard.press('Enter')
      await page.getByText('Priorities changed · Sort again').waitFor()
      assert.equal((await rows.allTextContents()).length, before.length)
      assert.equal(await last.inputValue(), '500')
      await page.getByRole('button', { name: 'Undo' }).click()
      await until('the old priority', async () => ((await last.inputValue()) === old ? true : undefined))
      await last.fill('7')
      await page.keyboard.press('Escape')
      assert.equal(await last.inputValue(), old)
    })

    it('names the models that would lose their last channel before it deletes one', async () => {
      await server.api('POST', '/api/channel/', {
        name: 'Only one',
        type: 1,
        key: 'sk-x',
        base_url: server.simulator.url,
        models: ['nobody-else-has-it'],
      })
      await follow(page, '/channels?q=Only%20one')
      await page.getByRole('button', { name: 'More actions for Only one' }).click()
      await page.getByRole('menuitem', { name: 'Delete' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByText('nobody-else-has-it').waitFor()
      const verb = dialog.getByRole('button', { name: 'Delete' })
      assert.equal(await verb.isDisabled(), true)
      await dialog.getByLabel(/^Type/).fill('Only one')
      await verb.click()
      await page.getByText('Only one deleted').waitFor()
      const { body } = await server.api('GET', '/api/channel/search?keyword=Only')
      assert.equal(body.data.total, 0)
    })

    it('edits several channels at once, and only the checked fields', async () => {
      await follow(page, '/channels?tag=eu')
      await page.getByLabel('Select all on this page').check()
      await page.getByRole('button', { name: 'Edit fields' }).click()
      const writes = writesOf(page)
      await page.getByRole('dialog').getByLabel('Weight').last().fill('9')
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
      await page.getByText('2 of 2 updated').waitFor()
      assert.deepEqual(
        writes.map(({ method, path }) => `${method} ${path}`),
        ['PUT /api/channel/batch'],
      )
      const { body } = await server.api('GET', '/api/channel/?tag=eu')
      assert.deepEqual(
        body.data.items.map(({ weight, priority }: { weight: number; priority: number }) => [
          weight,
          priority,
        ]),
        [
          [9, 10],
          [9, 10],
        ],
      )
    })

    it('lists the keyboard shortcuts of the page, and they work', async () => {
      await follow(page, '/channels')
      const rows = page.getByRole('table', { name: 'Channels' }).locator('tbody tr')
      await rows.first().focus()
      await page.keyboard.press('?')
      const sheet = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
      await sheet.getByText('Enable or disable row').waitFor()
      await page.keyboard.press('Escape')
      await sheet.waitFor({ state: 'detached' })
      await rows.first().focus()
      await page.keyboard.press('p')
      assert.equal(await page.evaluate('document.activeElement.getAttribute("aria-label")'), 'Priority')
      await page.keyboard.press('Escape')
      await rows.first().focus()
      await page.keyboard.press('e')
      await page.waitForURL(/\/channels\/\d+\/edit/)
      await follow(page, '/users')
      await page.getByRole('table', { name: 'Users' }).locator('tbody tr').first().focus()
      await page.keyboard.press('b')
      await page.getByLabel('Amount (USD)').waitFor()
      await until('the amount in focus', async () =>
        (await page.evaluate('document.activeElement.name')) === 'amount' ? true : undefined,
      )
    })

    it('tests all models of a channel, and offers to remove those that failed', async () => {
      const { body } = await server.api('POST', '/api/channel/', {
        name: 'Half broken',
        type: 1,
        key: 'sk-x',
        base_url: server.simulator.url,
        models: ['gpt-4o-mini', 'sim-status-500'],
      })
      await follow(page, `/channels/${body.data.id}`)
      await page.getByRole('button', { name: 'Test all models' }).click()
      await page.getByRole('button', { name: 'Test 2 models' }).click()
      await page.getByRole('button', { name: 'Remove failed models (1)' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click()
      await page.getByText('Half broken saved').waitFor()
      const { body: after } = await server.api('GET', `/api/channel/${body.data.id}`)
      assert.deepEqual(after.data.models, ['gpt-4o-mini'])
      await server.api('DELETE', `/api/channel/${body.data.id}`)
    })

    it('tests the keys of a channel one by one, and adds keys', async () => {
      const { body } = await server.api('GET', '/api/channel/search?keyword=Three%20keys')
      await follow(page, `/channels/${body.data.items[0].id}`)
      const panel = page.getByRole('complementary')
      const tested = page.waitForRequest(/\/api\/channel\/test\/\d+\?/)
      await panel.getByRole('button', { name: 'Test key 2' }).click()
      assert.equal(new URL((await tested).url()).searchParams.get('key'), '1')
      await panel.getByRole('listitem').filter({ hasText: /✓/ }).waitFor()
      await panel.getByRole('button', { name: 'Test all keys' }).click()
      await until('three verdicts', async () =>
        (await panel.getByRole('listitem').filter({ hasText: /✓/ }).count()) === 3 ? true : undefined,
      )
      await panel.getByText('Add keys').click()
      await panel.getByLabel('New keys, one per line').fill('sk-four-444')
      await panel.getByRole('button', { name: 'Add', exact: true }).click()
      await panel.getByRole('heading', { name: 'Keys (4)' }).waitFor()
    })

    it('selects across pages: row by row, a range, and all matching rows', async () => {
      const { body } = await server.api('POST', '/api/channel/', {
        mode: 'batch',
        channel: {
          name: 'Fleet',
          type: 1,
          key: Array.from({ length: 22 }, (_, index) => `sk-fleet-${index}`).join('\n'),
          models: ['fleet-model'],
          status: 2,
        },
      })
      assert.equal(body.success, true)
      await follow(page, '/channels?q=Fleet')
      const rows = page.getByRole('table', { name: 'Channels' }).locator('tbody tr')
      await rows.first().focus()
      await page.keyboard.press('x')
      await page.keyboard.press('j')
      await page.keyboard.press('j')
      await page.keyboard.press('Shift+X')
      const bar = page.getByRole('region', { name: 'Selected channels' })
      await bar.getByText('3 selected').waitFor()
      await page.getByRole('button', { name: 'Next page' }).click()
      await page.getByText('21–22 of 22').waitFor()
      await until('the rows of the next page', async () => ((await rows.count()) === 2 ? true : undefined))
      await rows.first().focus()
      await page.keyboard.press('x')
      await bar.getByText('4 selected').waitFor()
      await page.getByLabel('Select all on this page').check()
      await bar.getByRole('button', { name: 'Select all 22 matching' }).click()
      await bar.getByText('22 selected').waitFor()
      await bar.getByRole('button', { name: 'Edit fields' }).click()
      await page.getByRole('dialog').getByLabel('Weight').last().fill('4')
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
      await page.getByText('22 of 22 updated').waitFor()
      const fleet = (await server.api('GET', '/api/channel/search?keyword=Fleet&page_size=50')).body.data
        .items
      assert.deepEqual([...new Set(fleet.map(({ weight }: { weight: number }) => weight))], [4])
      await server.api('POST', '/api/channel/batch', { ids: fleet.map(({ id }: { id: number }) => id) })
    })

    it('disables, enables and deletes several tokens together', async () => {
      for (const name of ['bulk one', 'bulk two'])
        await server.api('POST', '/api/token/', { name, unlimited_quota: true })
      const statuses = async () =>
        (await server.api('GET', '/api/token/search?keyword=bulk')).body.data.items.map(
          ({ status }: { status: number }) => status,
        )
      await follow(page, '/tokens?q=bulk')
      await page.getByLabel('Select all on this page').check()
      const bar = page.getByRole('region', { name: 'Selected tokens' })
      await bar.getByRole('button', { name: 'Disable' }).click()
      await page.getByText('2 of 2 updated').waitFor()
      assert.deepEqual(await statuses(), [2, 2])
      await page.getByRole('button', { name: 'Undo' }).click()
      await until('both on again', async () => ((await statuses()).join() === '1,1' ? true : undefined))
      assert.equal(await bar.getByRole('button', { name: 'Raise limit' }).isDisabled(), true)
      for (const { id } of (await server.api('GET', '/api/token/search?keyword=bulk')).body.data.items)
        await server.api('PUT', '/api/token/', { id, unlimited_quota: false, remain_quota: 500_000 })
      await page.reload()
      await page.getByLabel('Select all on this page').check()
      await bar.getByRole('button', { name: 'Raise limit' }).click()
      await page.getByLabel('Amount (USD)').fill('3')
      await page.getByRole('dialog').getByRole('button', { name: 'Raise limit' }).click()
      await page.getByText('2 of 2 updated').waitFor()
      const raised = (await server.api('GET', '/api/token/search?keyword=bulk')).body.data.items
      assert.deepEqual(
        raised.map(({ remain_quota }: { remain_quota: number }) => remain_quota),
        [2_000_000, 2_000_000],
      )
      await bar.getByRole('button', { name: 'Delete' }).click()
      await page.getByRole('dialog').getByLabel(/^Type/).fill('2')
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
      await page.getByText('2 tokens deleted').waitFor()
      assert.deepEqual(await statuses(), [])
    })

    it('groups channels by tag, and disables and enables a whole tag', async () => {
      await follow(page, '/channels')
      await page.getByLabel('Group by tag').check()
      const group = page.getByRole('region', { name: 'eu' })
      await group.getByText('2 channels, 2 enabled').waitFor()
      await group.getByRole('button', { name: 'Disable' }).click()
      await group.getByText('2 channels, 0 enabled').waitFor()
      await page.getByRole('button', { name: 'Undo' }).last().click()
      await group.getByText('2 channels, 2 enabled').waitFor()
    })

    it('keeps rows selected that the gateway rejects, and says why', async () => {
      const { body } = await server.api('POST', '/api/channel/', {
        name: 'Gone meanwhile',
        type: 1,
        key: 'sk-x',
        models: ['m'],
        tag: 'eu',
      })
      await follow(page, '/channels?tag=eu')
      await page.getByLabel('Select all on this page').check()
      await page.getByRole('button', { name: 'Edit fields' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Weight').last().fill('8')
      await server.api('DELETE', `/api/channel/${body.data.id}`)
      await dialog.getByRole('button', { name: 'Save' }).click()
      await dialog.getByText(/^Gone meanwhile: Not found/).waitFor()
      await page.getByText('2 of 3 updated').waitFor()
    })

    it('shows a new token in full, and nothing of it after its dialog has closed', async () => {
      await follow(page, '/tokens/new')
      await page.getByLabel('Name').fill('shown once')
      await page.getByRole('button', { name: 'Create token' }).last().click()
      const key = (await page.locator('[data-secret]').textContent()) ?? ''
      assert.match(key, /^sk-[A-Za-z0-9]{48}$/)
      await page.keyboard.press('Escape')
      assert.equal(await page.locator('[data-secret]').count(), 1)
      await page.getByRole('button', { name: 'Done' }).click()
      await page.getByRole('cell', { name: 'shown once', exact: true }).waitFor()
      const traces = await page.evaluate(
        'document.documentElement.outerHTML + location.href + JSON.stringify({ ...localStorage, ...sessionStorage })',
      )
      assert.ok(!(traces as string).includes(key))
    })

    it('copies on a page without a clipboard API', async () => {
      const address = `http://gateway.test:${server.port}`
      const other = await visit(browser, address)
      await other.page.goto(`${address}/tokens/new`)
      assert.equal(await other.page.evaluate('window.isSecureContext'), false)
      await other.page.locator('input[name=password]').fill(ROOT_PASSWORD)
      await other.page.keyboard.press('Enter')
      await other.page.getByLabel('Name', { exact: true }).fill('copied by hand')
      await other.page.getByRole('button', { name: 'Create token' }).last().click()
      const key = await other.page.locator('[data-secret]').textContent()
      await other.page.getByRole('button', { name: 'Copy', exact: true }).click()
      await other.page.getByRole('button', { name: 'Copied', exact: true }).waitFor()
      await other.page.getByRole('button', { name: 'Done' }).click()
      await other.page.getByLabel('Search tokens').focus()
      await other.page.keyboard.press('Control+V')
      assert.equal(await other.page.getByLabel('Search tokens').inputValue(), key)
      await other.context.close()
    })

    it('explains a request that failed over: the attempts, the channel that served it, and the cost', async () => {
      await follow(page, `/usage/${content.requestId}`)
      await page.getByText(/^Served by .* on attempt 2/).waitFor()
      const attempts = page.getByRole('complementary').getByRole('listitem')
      assert.match((await attempts.first().textContent()) ?? '', /500/)
      const { body } = await server.api('GET', `/api/log/?request_id=${content.requestId}`)
      const charge = (await page.locator('.double-rule').textContent()) ?? ''
      assert.equal(Number(charge.replace('$', '')), Number(body.data.items[0].cost))
    })

    it('explains a pasted error in the palette, and offers the action that solves it', async () => {
      const { body: revealed } = await server.api('POST', `/api/token/${content.tokenId}/key`)
      const refused = await server.api(
        'POST',
        '/v1/chat/completions',
        { model: 'model-of-nobody', messages: [{ role: 'user', content: 'Hello' }] },
        { token: revealed.data.key, headers: { 'x-sluice-tags': 'project=atlas' } },
      )
      assert.equal(refused.status, 404, refused.text)
      await follow(page, '/')
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      await page.keyboard.press('Control+K')
      await page.getByRole('combobox').fill(`Error code: 404 - ${refused.text}`)
      await page.getByRole('option', { name: /Explain this error or ID/ }).click()
      const panel = page.getByRole('complementary', { name: 'Why did this fail?' })
      await panel.getByText('No enabled channel listed the model, and no alias had its name.').waitFor()
      await panel.getByRole('link', { name: 'Add a channel for model-of-nobody' }).waitFor()
      await panel.getByRole('link', { name: 'Open the request' }).click()
      const request = page.getByRole('complementary', { name: 'Request' })
      await request.getByRole('heading', { name: 'Why did this fail?' }).waitFor()
      await request.getByText('No channel lists the model now.').waitFor()
      await request.getByRole('link', { name: 'project=atlas' }).click()
      await page.getByRole('button', { name: /Tag.*project=atlas/ }).waitFor()
    })

    it('keeps filters in the URL: a reload shows the same rows, and an id is searched in all time', async () => {
      await follow(page, '/usage')
      await page.getByLabel('Model or request ID').fill('4o-mini')
      await page.waitForURL(/q=4o-mini/)
      const rows = page.getByRole('table', { name: 'Usage' }).locator('tbody tr')
      await until('the filtered rows', async () => ((await rows.count()) === 2 ? true : undefined))
      await page.reload()
      await until('the same rows', async () => ((await rows.count()) === 2 ? true : undefined))
      await follow(page, `/usage?range=1h&q=${content.requestId}`)
      await until('the one row', async () => ((await rows.count()) === 1 ? true : undefined))
    })

    it('shows cost lines that add up to the charge', async () => {
      await follow(page, '/usage?model=gpt-4o-mini')
      await page.getByRole('table', { name: 'Usage' }).locator('tbody tr').first().click()
      const panel = page.getByRole('complementary', { name: 'Request' })
      const cost = panel.locator('table')
      const amountsIn = async (cells: string) =>
        (await cost.locator(cells).allTextContents()).map(text =>
          Math.round(Number(text.replace('$', '')) * 1e12),
        )
      await cost.getByRole('rowheader', { name: 'Input', exact: true }).waitFor()
      const lines = await amountsIn('tr:not(:last-child) td:last-child')
      assert.ok(lines.length >= 2)
      assert.deepEqual(await amountsIn('.double-rule'), [lines.reduce((sum, line) => sum + line)])
      // j and k move between requests without closing the panel.
      const first = page.url()
      await page.keyboard.press('j')
      await page.waitForURL(url => url.href !== first)
      await page.keyboard.press('k')
      await page.waitForURL(first)
    })

    it('filters by existing values, saves filters as a view, and shows the chosen columns', async () => {
      await follow(page, '/usage')
      const rows = page.getByRole('table', { name: 'Usage' }).locator('tbody tr')
      const all = await until('all rows', async () => (await rows.count()) || undefined)
      await page.keyboard.press('f')
      const facet = page.getByRole('dialog', { name: 'Model' })
      await facet.getByRole('button', { name: /^gpt-4o-mini\s*2$/ }).waitFor()
      await facet.getByRole('searchbox').fill('4.1-mini')
      await facet.getByRole('button', { name: /^gpt-4.1-mini/ }).click()
      await page.waitForURL(/model=gpt-4.1-mini/)
      await until('the one row', async () => ((await rows.count()) === 1 ? true : undefined))
      await facet.getByRole('searchbox').fill('4o-mini')
      await facet.getByRole('button', { name: /^gpt-4o-mini/ }).click()
      await page.waitForURL(/models=gpt-4.1-mini(%2C|,)gpt-4o-mini/)
      await until('the rows of both', async () => ((await rows.count()) === 3 ? true : undefined))
      await facet.getByRole('button', { name: 'is not' }).click()
      await until('all but those', async () => ((await rows.count()) === all - 3 ? true : undefined))
      await facet.getByRole('button', { name: /^gpt-4o-mini/ }).click()
      await facet.getByRole('button', { name: 'is any of' }).click()
      await page.waitForURL(/model=gpt-4.1-mini/)
      await page.keyboard.press('Escape')
      const exported = await page.getByRole('link', { name: 'Export CSV' }).getAttribute('href')
      assert.match(exported ?? '', /columns=type(%2C|,)error_code/)

      await page.getByRole('button', { name: 'Views' }).click()
      await page.getByLabel('View name').fill('mine')
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByRole('button', { name: 'Clear filters' }).click()
      await until('all rows again', async () => ((await rows.count()) === all ? true : undefined))
      await page.getByRole('button', { name: 'Views' }).click()
      await page.getByRole('button', { name: 'mine', exact: true }).click()
      await page.waitForURL(/model=gpt-4.1-mini/)
      await page.getByRole('button', { name: 'Views' }).click()
      await page.getByRole('button', { name: 'Retried' }).click()
      await page.waitForURL(/min_attempts=2/)
      await until('the one that failed over', async () => ((await rows.count()) === 1 ? true : undefined))

      await page.getByRole('button', { name: 'Columns' }).click()
      await page.getByRole('checkbox', { name: 'Request ID', exact: true }).check()
      await page.keyboard.press('Escape')
      await page.getByRole('columnheader', { name: 'Request ID', exact: true }).waitFor()
      await page.reload()
      await page.getByRole('cell', { name: content.requestId }).waitFor()
    })

    it('pages through the log by cursor, and the browser’s Back works', async () => {
      await page.goto(`${server.url}/usage?min_cost=0`)
      await page.evaluate(
        `localStorage.setItem('sluice.preferences', JSON.stringify({ ...JSON.parse(localStorage.getItem('sluice.preferences') ?? '{}'), columns: {}, pageSize: 2 }))`,
      )
      await page.reload()
      const rows = page.getByRole('table', { name: 'Usage' }).locator('tbody tr')
      await until('two rows', async () => ((await rows.count()) === 2 ? true : undefined))
      const newest = await rows.first().textContent()
      await page.getByRole('button', { name: 'Older' }).click()
      await page.waitForURL(/cursor=/)
      await until('other rows', async () =>
        (await rows.first().textContent()) !== newest ? true : undefined,
      )
      await page.goBack()
      await until('the first rows', async () =>
        (await rows.first().textContent()) === newest ? true : undefined,
      )
      await page.evaluate(
        `localStorage.setItem('sluice.preferences', JSON.stringify({ ...JSON.parse(localStorage.getItem('sluice.preferences') ?? '{}'), pageSize: 50 }))`,
      )
    })

    it('counts new rows while the user reads, and shows them on request', async () => {
      await page.goto(`${server.url}/usage?live=true`)
      const rows = page.getByRole('table', { name: 'Usage' }).locator('tbody tr')
      await rows.first().waitFor()
      const before = await rows.count()
      await rows.first().focus()
      const { body } = await server.api('POST', '/api/token/', { name: 'live', unlimited_quota: true })
      await retryingFetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${body.data.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: 'live' }] }),
      })
      const pill = page.getByRole('button', { name: '1 new' })
      await pill.waitFor()
      assert.equal(await rows.count(), before)
      await pill.click()
      await until('the new row', async () => ((await rows.count()) === before + 1 ? true : undefined))
    })

    it('exports the visible rows as a file, with the current filters', async () => {
      await follow(page, '/usage?model=gpt-4o-mini')
      const link = page.getByRole('link', { name: 'Export JSONL' })
      const [download] = await Promise.all([page.waitForEvent('download'), link.click()])
      const rows = (await readFile(await download.path(), 'utf8')).trim().split('\n')
      assert.deepEqual(
        rows.map(row => JSON.parse(row).model_name),
        ['gpt-4o-mini', 'gpt-4o-mini'],
      )
    })

    it('compares with the previous period, filters by a model, and shows a custom range in a chosen time zone', async () => {
      const queries: URLSearchParams[] = []
      page.on('request', request => {
        const { pathname, searchParams } = new URL(request.url())
        if (pathname === '/api/usage/series') queries.push(searchParams)
      })
      await follow(page, '/me')
      await page.getByLabel('Time zone').selectOption('Asia/Tokyo')
      await page.getByLabel('Animations').selectOption('Off')
      assert.equal(await page.evaluate('document.documentElement.dataset.motion'), 'none')
      await follow(page, '/')
      await page.getByText(/^Median: first token \d/).waitFor()
      await page.getByText('previous: 0').first().waitFor()
      await page.getByLabel('Compare to').selectOption('vs last week')
      const begins = () => queries.map(query => Number(query.get('from')))
      await until('the week before to be asked for', async () =>
        begins().some(begin => begins().includes(begin - 7 * 86_400)) ? true : undefined,
      )
      await page.getByLabel('Compare to').selectOption('No comparison')
      await page.getByText('previous: 0').first().waitFor({ state: 'detached' })
      await page.getByRole('button', { name: 'Filter by gpt-4o', exact: true }).click()
      await page.getByRole('button', { name: 'Model: gpt-4o' }).waitFor()
      assert.equal(queries.at(-1)?.get('model'), 'gpt-4o')
      await page.getByRole('button', { name: 'Custom range' }).click()
      await page.getByLabel('From', { exact: true }).fill('2026-01-02T09:00')
      await page.getByLabel('To', { exact: true }).fill('2026-01-01T09:00')
      await page.getByRole('button', { name: 'Apply', exact: true }).click()
      await page.getByText('must be after the start').waitFor()
      await page.getByLabel('To', { exact: true }).fill('2026-01-03T09:00')
      await page.getByRole('button', { name: 'Apply', exact: true }).click()
      const at = (text: string) => Date.parse(text) / 1000
      await until('the range to be asked for', async () => {
        const last = queries.at(-1)
        const isAsked =
          Number(last?.get('from')) === at('2026-01-02T00:00Z') &&
          Number(last?.get('to')) === at('2026-01-03T00:00Z')
        return isAsked || undefined
      })
      assert.equal(queries.at(-1)?.get('tz'), 'Asia/Tokyo')
      await follow(page, '/me')
      await page.getByLabel('Time zone').selectOption('Browser time zone')
    })

    it('adds credit with a reason, after a preview', async () => {
      await follow(page, `/users/${content.userId}`)
      await page.getByLabel('Amount (USD)').fill('3')
      await page.getByLabel('Reason').fill('for the trial')
      await page.getByText('$5.00 → $8.00').waitFor()
      await page.getByRole('button', { name: 'Adjust credit' }).click()
      await page.getByText('Credit of ana adjusted').waitFor()
      const { body } = await server.api('GET', `/api/user/${content.userId}`)
      assert.equal(body.data.quota, 4_000_000)
    })

    it('changes several users at once; users that may not be changed stay selected, with the reason', async () => {
      const readUsers = async () => {
        const { body } = await server.api('GET', '/api/user/search?page_size=50')
        const of = (name: string) =>
          body.data.items.find((user: { username: string }) => user.username === name)
        return [of('ana'), of('boris')] as const
      }
      const before = await readUsers()
      await follow(page, '/users')
      await page.getByLabel('Select all on this page').check()
      const bar = page.getByRole('region', { name: 'Selected users' })
      await bar.getByRole('button', { name: 'Add credit' }).click()
      await page.getByLabel('Amount (USD)').fill('2')
      await page.getByLabel('Reason').fill('a gift for all')
      await page.getByText('$2.00 for each of 3 users').waitFor()
      await page.getByRole('dialog').getByRole('button', { name: 'Add credit' }).click()
      await page.getByText('2 of 3 updated').waitFor()
      await bar.getByText(/^root: .*You can only manage users with a role below your own/).waitFor()
      await bar.getByText('1 selected').waitFor()
      const after = await readUsers()
      assert.deepEqual(
        after.map(({ quota }, index) => quota - before[index as 0 | 1].quota),
        [1_000_000, 1_000_000],
      )
      await bar.getByRole('button', { name: 'Clear selection' }).click()
      for (const name of ['ana', 'boris']) await page.getByLabel(`Select ${name}`, { exact: true }).check()
      await bar.getByRole('button', { name: 'Set limits' }).click()
      await page.getByRole('spinbutton', { name: 'Requests per minute' }).fill('60')
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
      await page.getByText('2 of 2 updated').waitFor()
      assert.deepEqual(
        (await readUsers()).map(({ limits }) => limits.rpm),
        [60, 60],
      )
      await bar.getByRole('button', { name: 'Disable' }).click()
      await until('both off', async () =>
        (await readUsers()).every(({ status }) => status === 2) ? true : undefined,
      )
      await page.getByRole('button', { name: 'Undo' }).click()
      await until('both on', async () =>
        (await readUsers()).every(({ status }) => status === 1) ? true : undefined,
      )
      for (const { id } of after) await server.api('PUT', '/api/user/', { id, limits: { rpm: null } })
      await follow(page, '/audit?range=1h')
      await page.getByLabel('Action').selectOption('Credit adjusted')
      await page.getByRole('cell', { name: 'Credit adjusted' }).first().waitFor()
      const saving = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Export CSV' }).click()
      const lines = (await readFile(await (await saving).path(), 'utf8')).trim().split('\n')
      assert.match(lines[0] ?? '', /^seq,time,actor_id,/)
      assert.ok(lines.length > 2 && lines.slice(1).every(line => line.includes('user.add_quota')))
    })

    it('multiplies and imports prices after a preview; an edit keeps tiers', async () => {
      await server.api('POST', '/api/price/', {
        model: 'house-tiered',
        input: 2,
        tiers: [{ input_over: 1000, input: 4 }],
      })
      const inForce = async (model: string) =>
        (await server.api('GET', `/api/price/?model=${model}`)).body.data.items[0]
      await follow(page, '/prices?q=house-tiered')
      await page.getByLabel('Select house-tiered').check()
      await page.getByRole('button', { name: 'Multiply…' }).click()
      await page.getByLabel('Factor').fill('1.5')
      await page.getByRole('button', { name: 'Preview changes' }).click()
      await page.getByText('Input $2.00 → $3.00 · tiers').waitFor()
      assert.equal((await inForce('house-tiered')).input, 2)
      await page.getByRole('button', { name: 'Set 1 price' }).click()
      await page.getByText('1 price set').waitFor()
      assert.deepEqual((await inForce('house-tiered')).tiers, [{ input_over: 1000, input: 6 }])
      await follow(page, '/prices?q=house-tiered&edit=house-tiered')
      await page.getByText('1 tier or variant is kept.').waitFor()
      await page
        .getByLabel(/^Output/)
        .first()
        .fill('9')
      await page.getByText(/1,000 input and 500 output tokens cost \$0\.0075/).waitFor()
      await page.getByRole('complementary').getByRole('button', { name: 'Set price' }).click()
      await page.getByText('Price of house-tiered updated').waitFor()
      assert.deepEqual((await inForce('house-tiered')).tiers, [{ input_over: 1000, input: 6 }])
      const saving = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Export CSV', exact: true }).click()
      const file = await readFile(await (await saving).path(), 'utf8')
      assert.match(file, /^model,input,output,/)
      await page.getByRole('button', { name: 'Import CSV' }).click()
      const table = page.getByLabel('CSV with a header row')
      await table.fill('model,colour\nhouse-tiered,red')
      await page.getByRole('button', { name: 'Preview changes' }).click()
      await page.getByText('Unknown column “colour”.').waitFor()
      // An exported file changes nothing when it is imported.
      await table.fill(`${file}house-tabled,"0.5"\n`)
      await page.getByRole('button', { name: 'Preview changes' }).click()
      await page.getByText('1 price unchanged.').waitFor()
      await page.getByText('Input – → $0.50').waitFor()
      await page.getByRole('button', { name: 'Set 1 price' }).click()
      await page.getByText('1 price set').last().waitFor()
      assert.equal((await inForce('house-tabled')).input, 0.5)
    })

    it('shows a response in the playground, and what the ledger charged', async () => {
      await follow(page, '/playground?model=gpt-4o-mini')
      await page.getByLabel('Message', { exact: true }).fill('Say something about water.')
      // Sending is possible only after the models are loaded.
      await page.locator('button[type=submit]:enabled').waitFor()
      await page.keyboard.press('Enter')
      const link = page.getByRole('link', { name: 'View request' })
      await link.waitFor()
      await page.getByText(/\$0\.0000/).waitFor()
    })

    it('creates and revokes a system access token in Account → Security settings', async () => {
      await follow(page, '/me')
      await page.getByRole('heading', { name: 'Account', exact: true }).waitFor()
      await page.getByRole('heading', { name: 'Security settings' }).waitFor()
      await page.getByRole('heading', { name: 'System access tokens' }).waitFor()
      await page.getByRole('button', { name: 'Create access token' }).click()
      await page.getByRole('dialog').getByLabel('Name').fill('from the console')
      await page.getByRole('dialog').getByRole('button', { name: 'Create access token' }).click()
      const value = (await page.locator('[data-secret]').textContent()) ?? ''
      assert.equal((await server.api('GET', '/api/user/self', undefined, { token: value })).status, 200)
      await page.getByRole('button', { name: 'Done' }).click()
      await page.getByRole('button', { name: 'Revoke from the console' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
      await page.getByText('from the console revoked').waitFor()
      assert.equal((await server.api('GET', '/api/user/self', undefined, { token: value })).status, 401)
    })

    it('asks to sign in when the session has expired, and then repeats the call', async () => {
      await follow(page, '/settings')
      await page.getByLabel('Max attempts').fill('4')
      await page.context().clearCookies()
      await page.getByRole('button', { name: 'Save' }).click()
      const dialog = page.getByRole('dialog', { name: 'Your session has expired' })
      await dialog.getByLabel('Password').fill(ROOT_PASSWORD)
      await dialog.getByRole('button', { name: 'Sign in' }).click()
      await page.getByText('Settings saved').waitFor()
      const { body } = await server.api('GET', '/api/setting/')
      const attempts = body.data.find(({ key }: { key: string }) => key === 'attempts')
      assert.equal(attempts.value, 4)
    })

    it('is navigated by keyboard: pages by two letters, rows by j and Enter, the palette by Ctrl K', async () => {
      await follow(page, '/')
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      const channels = page.getByRole('heading', { level: 1, name: 'Channels' })
      // On a busy machine the second letter may come too late to belong to the first.
      await until('the page of channels', async () => {
        await page.keyboard.press('g')
        await page.keyboard.press('c')
        return (await channels.isVisible()) || undefined
      })
      await page.locator('[data-rows] tr').first().waitFor()
      await page.keyboard.press('j')
      await page.keyboard.press('Enter')
      await page.getByRole('complementary').waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('complementary').waitFor({ state: 'detached' })
      await page.keyboard.press('Control+K')
      await page.keyboard.type('ana')
      await page.getByRole('option', { name: /ana/ }).first().waitFor()
      const { body } = await server.api('POST', `/api/token/${content.tokenId}/key`)
      const urls: string[] = []
      page.on('request', request => urls.push(request.url()))
      await page.getByRole('combobox').fill(body.data.key)
      await page
        .getByRole('option', { name: /search-backend/ })
        .first()
        .waitFor()
      assert.deepEqual(
        urls.filter(url => url.includes(body.data.key)),
        [],
      )
      await page.getByRole('combobox').fill('gpt-4.1-mi')
      await page.getByRole('option', { name: /gpt-4.1-mini/ }).waitFor()
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor()
      await page.keyboard.press('Control+K')
      await page.getByRole('option', { name: 'Recent gpt-4.1-mini' }).waitFor()
      await page.keyboard.press('Escape')
    })

    it('shows a user only what a user may open', async () => {
      const other = await visit(browser, server.origin)
      await signIn(other.page, server.url, { username: 'ana', password: 'password of ana' })
      await other.page.goto(server.url)
      await other.page.locator('#main h1').waitFor()
      const menu = other.page.getByRole('navigation', { name: 'Menu' })
      assert.deepEqual(await menu.getByRole('link').allTextContents(), [
        'Overview',
        'Usage',
        'Videos',
        'Playground',
        'Tokens',
        'Models',
      ])
      for (const path of [
        '/channels',
        '/prices',
        '/users',
        '/audit',
        '/ledger',
        '/nodes',
        '/settings',
        '/channels/1',
      ]) {
        await follow(other.page, path)
        await other.page.getByRole('heading', { name: 'Access denied' }).waitFor()
      }
      await other.page.goto(`${server.url}/settings`)
      await other.page.getByRole('heading', { name: 'Access denied' }).waitFor()
      assert.deepEqual(other.faults, [])
      await other.context.close()
    })

    it('shows hostile names as text', async () => {
      const name = '<img src=x onerror=alert(1)>'
      await server.api('POST', '/api/token/', { name, unlimited_quota: true })
      await follow(page, '/tokens')
      await page.getByRole('cell', { name, exact: true }).waitFor()
    })

    it('causes no script error, no policy violation and no request to another host', () => {
      assert.deepEqual(faults, [])
    })
  })
}

describe('the console in a browser', { skip: skipWithout(import.meta.filename, 'chromium') }, describeConsole)
