import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { follow, signIn, startBrowser, visit } from '../../support/browser.ts'
import { retryingFetch } from '../../support/client.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'

const UNITS_PER_USD = 500_000
const FULL_KEY = /sk-\w{40}/
/** Long enough that a second press comes before the response. */

function describeForms(): void {
  let browser: Browser
  let server: ConsoleServer
  let page: Page
  let faults: readonly string[]
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    const visitor = await visit(browser, server.origin, { width: 1440, height: 900 })
    page = visitor.page
    faults = visitor.faults
    await signIn(page, server.url, { username: 'root', password: ROOT_PASSWORD })
    await page.goto(`${server.url}/me`)
  })
  after(async () => {
    await browser.close()
    await server.close()
  })

  async function create(path: string, body: object): Promise<{ id: number; key: string }> {
    const reply = await server.api('POST', path, body)
    assert.equal(reply.status, 200, reply.text)
    return reply.body.data
  }
  const read = async (path: string) => (await server.api('GET', path)).body.data
  const panel = () => page.getByRole('complementary')
  const heading = (name: string) => panel().getByRole('heading', { name, exact: true })
  const openRow = (id: number) => page.locator(`[data-id="${id}"] td`).nth(1).click()
  const newUser = (username: string) =>
    create('/api/user/', { username, password: `password of ${username}` })
  const newChannel = (name: string) =>
    create('/api/channel/', {
      mode: 'single',
      channel: { name, type: 1, key: 'sk-simulated', base_url: server.simulator.url, models: ['sim-small'] },
    })

  it('saves a token again, also with the value that a field had before', async () => {
    const { id } = await create('/api/token/', { name: 'first', remain_quota: UNITS_PER_USD })
    await follow(page, `/tokens/${id}`)
    const save = async (name: string) => {
      await panel().getByLabel('Name', { exact: true }).fill(name)
      await panel().getByRole('button', { name: 'Save' }).click()
      await until(`the name ${name}`, async () =>
        (await read(`/api/token/${id}`)).name === name ? true : undefined,
      )
      await heading(name).waitFor()
    }
    await save('second')
    await save('first')
  })

  it('does not set the limit of a token again with a later change of its name', async () => {
    const { id } = await create('/api/token/', { name: 'spending', remain_quota: UNITS_PER_USD })
    await follow(page, `/tokens/${id}`)
    const save = async () => {
      const saved = page.waitForResponse(response => response.request().method() === 'PUT')
      await panel().getByRole('button', { name: 'Save' }).click()
      await (await saved).finished()
    }
    await panel().getByLabel('Amount (USD)').fill('3')
    await save()
    await server.api('PUT', '/api/token/', { id, remain_quota: UNITS_PER_USD })
    await panel().getByLabel('Name', { exact: true }).fill('spending more')
    await save()
    const { name, remain_quota } = await read(`/api/token/${id}`)
    assert.deepEqual([name, remain_quota], ['spending more', UNITS_PER_USD])
  })

  it('keeps what is typed while a token is saved', async test => {
    const { id } = await create('/api/token/', { name: 'before', remain_quota: UNITS_PER_USD })
    await follow(page, `/tokens/${id}`)
    const respond = Promise.withResolvers<void>()
    test.after(() => page.unroute('**/api/token/'))
    await page.route('**/api/token/', async route => {
      if (route.request().method() === 'PUT') await respond.promise
      await route.fallback()
    })
    const name = panel().getByLabel('Name', { exact: true })
    await name.fill('stored')
    const started = page.waitForRequest(request => request.method() === 'PUT')
    await panel().getByRole('button', { name: 'Save' }).click()
    await started
    await name.fill('typed later')
    respond.resolve()
    await heading('stored').waitFor()
    assert.equal(await name.inputValue(), 'typed later')
    await panel().getByRole('button', { name: 'Save' }).click()
    await heading('typed later').waitFor()
    assert.equal((await read(`/api/token/${id}`)).name, 'typed later')
  })

  it('saves only the changed fields of a user', async () => {
    const { id } = await newUser('eva')
    await follow(page, `/users/${id}`)
    await panel().getByLabel('Display name').waitFor()
    const changed = await server.api('PUT', '/api/user/', {
      id,
      email: 'eva@example.com',
      limits: { rpm: 7 },
    })
    assert.equal(changed.status, 200, changed.text)
    await panel().getByLabel('Display name').fill('Eva')
    await panel().getByRole('button', { name: 'Save', exact: true }).click()
    const { display_name, email, limits } = await until('the name', async () => {
      const user = await read(`/api/user/${id}`)
      return user.display_name === 'Eva' ? user : undefined
    })
    assert.deepEqual([display_name, email, limits.rpm], ['Eva', 'eva@example.com', 7])
  })

  it('hides the key of a token when another token is opened', async () => {
    const one = await create('/api/token/', { name: 'with a key', unlimited_quota: true })
    const other = await create('/api/token/', { name: 'another', unlimited_quota: true })
    await follow(page, `/tokens/${one.id}`)
    await panel().getByRole('button', { name: 'Reveal' }).click()
    await panel().getByText(FULL_KEY).first().waitFor()
    await openRow(other.id)
    await heading('another').waitFor()
    assert.equal(await panel().getByText(FULL_KEY).count(), 0)
  })

  it('never passes text that was typed for a channel or user on to the next one', async () => {
    const one = await newChannel('channel one')
    const other = await newChannel('channel two')
    await follow(page, `/channels/${one.id}`)
    await panel().locator('summary').click()
    await panel().getByLabel('New keys, one per line').fill('sk-for-channel-one')
    await openRow(other.id)
    await heading('channel two').waitFor()
    assert.equal(await panel().locator('details textarea').inputValue(), '')

    const ana = await newUser('ana')
    const ben = await newUser('ben')
    await follow(page, `/users/${ana.id}`)
    await panel().getByLabel('Amount (USD)').fill('100')
    await openRow(ben.id)
    await heading('ben').waitFor()
    assert.equal(await panel().getByLabel('Amount (USD)').inputValue(), '')
  })

  it('submits a form once, however often Ctrl S is pressed', async () => {
    const { id } = await newUser('carl')
    const pressed = Promise.withResolvers<void>()
    await page.route('**/api/**', async route => {
      if (route.request().method() !== 'GET') await pressed.promise
      await route.continue()
    })
    await follow(page, `/users/${id}`)
    await panel().getByLabel('Amount (USD)').fill('1')
    await panel().getByLabel('Reason').fill('welcome')
    for (let press = 0; press < 3; press++) await page.keyboard.press('Control+s')
    pressed.resolve()
    await page.getByText('Credit of carl adjusted').first().waitFor()

    await follow(page, '/tokens/new')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name', { exact: true }).fill('only once')
    for (let press = 0; press < 3; press++) await page.keyboard.press('Control+s')
    await dialog.getByText(FULL_KEY).first().waitFor()

    await page.unrouteAll({ behavior: 'wait' })
    assert.equal((await read(`/api/user/${id}`)).quota, UNITS_PER_USD)
    assert.equal((await read('/api/token/search?keyword=only+once')).total, 1)
  })

  it('adds credit once when the first response was lost and the form is sent again', async test => {
    const { id } = await newUser('lena')
    await follow(page, `/users/${id}`)
    test.after(() => page.unroute('**/api/user/manage'))
    await page.route('**/api/user/manage', async route => {
      await route.fetch()
      await route.abort()
    })
    await panel().getByLabel('Amount (USD)').fill('1')
    await panel().getByLabel('Reason').fill('welcome')
    const add = panel().getByRole('button', { name: 'Adjust credit' })
    await add.click()
    await panel().getByRole('alert').waitFor()
    await page.unroute('**/api/user/manage')
    await add.click()
    await page.getByText('Credit of lena adjusted').first().waitFor()
    assert.equal((await read(`/api/user/${id}`)).quota, UNITS_PER_USD)

    await panel().getByLabel('Amount (USD)').fill('1')
    await panel().getByLabel('Reason').fill('welcome')
    await add.click()
    await until('the second credit', async () =>
      (await read(`/api/user/${id}`)).quota === 2 * UNITS_PER_USD ? true : undefined,
    )
  })

  it('says why a form could not be saved if no gateway responds', async test => {
    const { id } = await create('/api/token/', { name: 'no gateway' })
    await follow(page, `/tokens/${id}`)
    await panel().getByLabel('Name', { exact: true }).fill('changed')
    test.after(() => page.unroute('**/api/token/'))
    const responses = [
      { status: 0, text: 'The gateway is not responding.' },
      { status: 502, text: 'The response (status 502) is not from the gateway.' },
      { status: 200, text: 'The response (status 200) is not from the gateway.' },
    ]
    for (const { status, text } of responses) {
      await page.route('**/api/token/', route =>
        route.request().method() !== 'PUT'
          ? route.fallback()
          : status === 0
            ? route.abort()
            : route.fulfill({ status, body: '<html></html>' }),
      )
      await panel().getByRole('button', { name: 'Save' }).click()
      await panel().getByRole('alert').getByText(text).waitFor()
      await page.unroute('**/api/token/')
    }
  })

  it('shows a field that must be corrected, also in a part that is closed', async () => {
    const { id } = await create('/api/token/', { name: 'without a limit' })
    await follow(page, `/tokens/${id}`)
    const advanced = panel().getByText('Advanced', { exact: true })
    const limit = panel().getByLabel('Requests per minute')
    await advanced.click()
    await limit.fill('0')
    await advanced.click()
    await limit.waitFor({ state: 'hidden' })
    await panel().getByRole('button', { name: 'Save' }).click()
    await limit.waitFor({ state: 'visible' })
    assert.equal(await limit.evaluate(field => field.matches(':focus')), true)
  })

  it('shows errors of fields and of the gateway in Chinese', async test => {
    const visitor = await visit(browser, server.origin, { language: 'zh-CN' })
    test.after(() => visitor.context.close())
    await signIn(visitor.page, server.url, { username: 'root', password: ROOT_PASSWORD })
    await visitor.page.goto(`${server.url}/users/new`)
    const dialog = visitor.page.getByRole('dialog')
    const [name, add] = [dialog.getByLabel('用户名'), dialog.getByRole('button', { name: '添加用户' })]
    await dialog.getByLabel('密码').fill('short')
    await add.click()
    await dialog.getByRole('alert').getByText('不能为空').waitFor()
    await dialog.getByRole('alert').getByText('必须有 8 到 128 个字符').waitFor()
    await name.fill('root')
    await dialog.getByLabel('密码').fill('password of root')
    await add.click()
    await dialog.getByRole('alert').getByText('此用户名已被占用').waitFor()
    await visitor.page.goto(`${server.url}/tokens/99999`)
    await visitor.page.getByRole('alert').getByText('没有此令牌。').waitFor()
  })

  it('reports that an action of a menu or button failed', async test => {
    const token = await create('/api/token/', { name: 'still enabled' })
    const channel = await newChannel('still in use')
    const { status } = await retryingFetch(`${server.url}/api/user/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: 'root', password: ROOT_PASSWORD }),
    })
    assert.equal(status, 200)
    test.after(() => page.unroute('**/api/**'))
    await page.route('**/api/**', route =>
      route.request().method() === 'GET' ? route.fallback() : route.abort(),
    )
    const isReported = async () => {
      const toast = page
        .locator('section[aria-live] li')
        .filter({ hasText: 'The gateway is not responding.' })
      await toast.waitFor()
      await toast.getByRole('button', { name: 'Close' }).click()
      await toast.waitFor({ state: 'detached' })
    }
    await follow(page, `/tokens/${token.id}`)
    await panel().getByRole('button', { name: 'More actions for still enabled' }).click()
    await page.getByRole('menuitem', { name: 'Disable' }).click()
    await isReported()
    await follow(page, `/channels/${channel.id}`)
    await panel().getByRole('button', { name: 'Disable' }).click()
    await isReported()
    await panel().getByRole('button', { name: 'More actions for still in use' }).click()
    await page.getByRole('menuitem', { name: 'Duplicate' }).click()
    await isReported()
    await follow(page, '/channels')
    await page.getByRole('checkbox', { name: 'Select still in use' }).check()
    await page.getByRole('button', { name: 'Disable', exact: true }).click()
    await isReported()
    await follow(page, '/me')
    await page.getByRole('button', { name: 'Sign out all other sessions' }).click()
    await isReported()
  })

  it('searches for several words, also with a pause between them', async () => {
    await follow(page, '/tokens')
    const box = page.getByRole('searchbox')
    await box.pressSequentially('two ')
    await page.waitForURL(/q=two$/)
    await box.pressSequentially('words')
    await page.waitForURL(/q=two(\+|%20)words$/)
    assert.equal(await box.inputValue(), 'two words')
  })

  it('keeps the other changes of the settings when one setting is reset', async () => {
    await server.api('PUT', '/api/setting/', { attempts: 4 })
    await follow(page, '/settings')
    const fields = page.getByRole('main').locator('form input[type=number]')
    await fields.nth(1).waitFor()
    const other = fields.last()
    await other.fill('77')
    const reset = page.getByRole('button', { name: 'Reset to default' })
    await reset.click()
    await reset.waitFor({ state: 'detached' })
    assert.equal(await other.inputValue(), '77')
  })

  it('shows the last page of a list that has become shorter', async () => {
    await follow(page, '/tokens?p=99')
    await page.getByRole('table').getByText('with a key').waitFor()
    await page.waitForURL(/\/tokens\?p=1$/)
    assert.equal(await page.getByText('No tokens yet').count(), 0)
  })

  it('shows a long model name without a price, and does not scroll sideways', async () => {
    const models = [`accounts/fireworks/models/${'long-'.repeat(40)}`]
    const channel = { name: 'long', type: 1, key: 'sk-simulated', base_url: server.simulator.url, models }
    await create('/api/channel/', { mode: 'single', channel })
    await follow(page, '/prices')
    await page.getByRole('button', { name: 'accounts/fireworks' }).waitFor()
    assert.equal(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0)
  })

  it('never repeats a call as another user, who signs in when the session has expired', async () => {
    const user = { username: 'dora', password: 'password of dora' }
    await create('/api/user/', { ...user, quota: UNITS_PER_USD })
    await follow(page, '/tokens/new')
    await page.getByLabel('Name', { exact: true }).fill('of root')
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Create token' }).last().click()
    await page.getByLabel('Username').fill(user.username)
    await page.getByLabel('Password').fill(user.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.locator('[aria-label="Account: dora"]').waitFor()
    await page.waitForLoadState('networkidle')
    const own = await page.request.get(`${server.url}/api/token/search`)
    assert.equal((await own.json()).data.total, 0)
  })

  it('is loaded anew when another user signs in in another tab', async test => {
    const tab = await page.context().newPage()
    test.after(() => tab.close())
    await tab.goto(`${server.url}/sign-in`)
    await tab.getByLabel('Username').fill('root')
    await tab.getByLabel('Password').fill(ROOT_PASSWORD)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await page.locator('[aria-label="Account: root"]').waitFor()
    await signIn(page, server.url, { username: 'dora', password: 'password of dora' })
    await page.goto(`${server.url}/tokens`)
    await page.locator('[aria-label="Account: dora"]').waitFor()
  })

  it('opens a link with a time that no calendar has', async () => {
    await page.goto(`${server.url}/?from=9999999999999999&until=9999999999999999`)
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
  })

  it('says why it could not sign out', async () => {
    await page.route('**/api/user/logout', route => route.abort())
    await page.goto(`${server.url}/me`)
    await page.getByRole('button', { name: 'Account: dora' }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByText('The gateway is not responding.').first().waitFor()
    await page.unrouteAll()
  })

  it('causes no script error, no policy violation and no request to another host', () => {
    assert.deepEqual(faults, [])
  })
}

describe(
  'the forms of the console in a browser',
  { skip: skipWithout(import.meta.filename, 'chromium') },
  describeForms,
)
