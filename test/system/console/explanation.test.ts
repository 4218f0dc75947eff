import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { follow, signIn, startBrowser, visit } from '../../support/browser.ts'
import { retryingFetch } from '../../support/client.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { lookInto, until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { createResources } from '../../support/relay.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }
const WIDE = { width: 1440, height: 900 }

function describeExplanations(): void {
  let browser: Browser
  let server: ConsoleServer
  let page: Page
  let faults: readonly string[]
  let resources: ReturnType<typeof createResources>
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    resources = createResources(server.api, server.simulator.url)
    const visitor = await visit(browser, server.origin, WIDE)
    page = visitor.page
    faults = visitor.faults
    await signIn(page, server.url, ROOT)
    await page.goto(`${server.url}/me`)
  })
  after(async () => {
    await browser.close()
    await server.close()
  })

  const panel = () => page.getByRole('complementary').last()

  /** Sends a request and returns its ID, when its row is written. */
  async function send(key: string, model: string): Promise<string> {
    const response = await retryingFetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    await response.text()
    const id = response.headers.get('x-request-id') ?? ''
    await until('the row of the request', async () =>
      (await server.api('GET', `/api/log/request/${id}`)).status === 200 ? true : undefined,
    )
    return id
  }

  /** Opens what Ctrl K finds for a text: the first result of the page. It is pressed on a page that is quick to load. */
  async function find(text: string, group = 'Usage'): Promise<number> {
    await follow(page, '/me')
    await page.getByRole('heading', { name: 'Account', exact: true }).waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').fill(text)
    const options = page.getByRole('option')
    const result = options.filter({ hasText: new RegExp(`^${group}`) }).first()
    await result.waitFor()
    const count = await options.count()
    await result.click()
    return count
  }

  const FOCUSED = `(() => {
    const field = document.activeElement?.closest('[data-field]')
    const { top, bottom } = field?.getBoundingClientRect() ?? { top: -1, bottom: -1 }
    return top >= 0 && bottom <= window.innerHeight ? field?.getAttribute('data-field') : undefined
  })()`
  /** The visible field that has the focus. */
  const focusedField = () =>
    until(
      'a field to have the focus',
      async () => (await page.evaluate<string | undefined>(FOCUSED)) ?? undefined,
    )

  const failedIds: string[] = []
  /** The bodies of younger requests may still be written. */
  const OLD_S = 60

  it('names the channel in cooldown with its cause, and leads to its key', async () => {
    const { model, channels } = await resources.serve('sim-status-401', { name: 'OpenAI main' })
    const { key } = await resources.newToken({ name: 'app', unlimited_quota: true })
    const first = await send(key, model)
    const second = await send(key, model)
    failedIds.push(first, second)
    assert.equal(await find(second), 1, 'one result for a request ID')
    await panel()
      .getByText(/OpenAI main was cooling down\. Its provider rejected the key \(401/)
      .waitFor()
    await panel().getByRole('link', { name: first }).waitFor()
    await panel().getByRole('link', { name: 'OpenAI main', exact: true }).first().waitFor()
    for (const name of ['app', 'root', model, 'Open token', 'Open channel OpenAI main'])
      await panel().getByRole('link', { name, exact: true }).first().waitFor()
    await panel().getByRole('link', { name: 'Replace key of OpenAI main' }).click()
    await page.waitForURL(`**/channels/${channels[0]}/edit#key`)
    assert.equal(await focusedField(), 'key')
    await follow(page, '/')
    const need = page
      .getByRole('listitem')
      .filter({ hasText: 'The provider rejects the key of OpenAI main (401)' })
    await need.getByText(/Cooling down|Cooldown ended, waiting for a trial request/).waitFor()
    await page.getByText(/^Requests fail with /).waitFor()
  })

  it('leads to the list of addresses of a token, and opens what hides it', async () => {
    const { model } = await resources.serve('sim-words-1')
    const { key } = await resources.newToken({ name: 'office only', allow_ips: ['10.1.2.0/24'] })
    const id = await send(key, model)
    failedIds.push(id)
    await find(id)
    await panel().getByText('office only may be used only from these addresses: 10.1.2.0/24.').waitFor()
    await panel().getByRole('link', { name: 'Edit addresses of token office only' }).click()
    assert.equal(await focusedField(), 'allow_ips')
  })

  it('finds the newest request by a bare code, counts the others and lists them with their code', async () => {
    const { key } = await resources.newToken({
      name: 'one model',
      model_limits_enabled: true,
      models: ['one'],
    })
    failedIds.push(await send(key, 'first-model'), await send(key, 'second-model'))
    await find('model_not_allowed')
    await panel().getByText('This is the newest of 2 requests with model_not_allowed').waitFor()
    await panel().getByText('one model may use only these models: one.').waitFor()
    await panel().getByRole('link', { name: 'Show all with model_not_allowed' }).click()
    const row = page.getByRole('row').filter({ hasText: 'second-model' })
    await row.getByText('model_not_allowed').waitFor()
  })

  it('enables the only channel of a model from the explanation, and shows it in the route before', async () => {
    const { model, channels } = await resources.serve('sim-words-1', { name: 'Claude EU' })
    const status = (value: number) =>
      server.api('POST', `/api/channel/${channels[0]}/status`, { status: value })
    assert.equal((await status(2)).status, 200)
    const { key } = await resources.newToken({ unlimited_quota: true })
    const id = await send(key, model)
    failedIds.push(id)
    await find(model, 'Models')
    await page.getByText('No enabled channel serves this model').waitFor()
    await page.getByRole('link', { name: 'Claude EU' }).waitFor()
    assert.equal(await page.getByText('No price is set.').count(), 0)
    await find(id)
    await panel().getByText('Claude EU lists the model, but it is disabled now.').waitFor()
    await panel().getByRole('button', { name: 'Enable channel Claude EU' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Enable', exact: true }).click()
    await panel().getByText('Claude EU is enabled now and not cooling down.').waitFor()
    assert.equal((await server.api('GET', `/api/channel/${channels[0]}`)).body.data.status, 1)
  })

  it('names the model that a mapping sends, and leads to the mapping; a failed request has no cost', async () => {
    const { model } = await resources.serve('sim-status-404', { name: 'Mapped' })
    const { key } = await resources.newToken({ unlimited_quota: true })
    const id = await send(key, model)
    failedIds.push(id)
    await find(id)
    await panel()
      .getByText(`does not know the model "sim-status-404", to which the channel maps "${model}"`)
      .waitFor()
    assert.equal(await panel().getByRole('heading', { name: 'Cost' }).count(), 0)
    await panel().getByRole('link', { name: 'Edit model mapping of Mapped' }).click()
    assert.equal(await focusedField(), 'model_mapping')
  })

  it('tells at once that no body of a request is kept, with a link to the setting', async () => {
    const [id] = failedIds
    await lookInto(server.ground, ({ db }) =>
      db
        .updateTable('logs')
        .set(({ eb }) => ({ created_time: eb('created_time', '-', OLD_S) }))
        .where('request_id', '=', id as string)
        .execute(),
    )
    await follow(page, `/usage/${id}`)
    await panel().getByText('No body of this request is kept.').waitFor()
    await panel().getByRole('link', { name: 'Change which bodies are kept' }).click()
    assert.equal(await focusedField(), 'log_bodies')
  })

  it('is wholly in Chinese, except for the words of providers', async () => {
    const visitor = await visit(browser, server.origin, { ...WIDE, language: 'zh-CN' })
    await signIn(visitor.page, server.url, ROOT)
    await visitor.page.goto(`${server.url}/me`)
    await visitor.page.locator('h1').waitFor()
    for (const id of failedIds) {
      await follow(visitor.page, `/usage/${id}`)
      const why = visitor.page.locator('aside section', { hasText: '失败原因' })
      await why.getByRole('listitem').first().waitFor()
      assert.deepEqual(await why.locator('[lang=en]').allInnerTexts(), [], id)
      const text = (await why.innerText()).replace(/".*"/g, '')
      assert.doesNotMatch(text, /\b(or|the|its|was|token|channel)\b/, id)
    }
    await visitor.context.close()
  })

  it('stays where it is when the language changes, in all tabs', async () => {
    const otherTab = await page.context().newPage()
    await otherTab.goto(`${server.url}/me`)
    await otherTab.getByRole('heading', { name: 'Account', exact: true }).waitFor()
    await page.goto(server.url)
    await page.getByText('Latest requests').waitFor()
    await page.evaluate('window.scrollTo(0, 0)')
    // By coordinates, because a click on an element scrolls it into view first.
    const press = async (role: 'button' | 'menuitem', name: RegExp) => {
      const box = await page.getByRole(role, { name }).first().boundingBox()
      assert.ok(box)
      await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2)
    }
    await press('button', /^Account/)
    await page.getByRole('menuitem', { name: '简体中文' }).waitFor()
    await press('menuitem', /简体中文/)
    await page.getByRole('heading', { name: '概览' }).waitFor()
    await until('the button to have the focus again', async () =>
      (await page.evaluate('document.activeElement.getAttribute("aria-haspopup")')) === 'menu'
        ? true
        : undefined,
    )
    assert.equal(await page.evaluate('window.scrollY'), 0)
    await otherTab.getByRole('heading', { name: '账户', exact: true }).waitFor()
    assert.deepEqual(faults, [])
  })
}

describe(
  'the explanation of a request in the console',
  { skip: skipWithout(import.meta.filename, 'chromium') },
  describeExplanations,
)
