import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { skipWithout } from '../../support/programs.ts'

const ADMIN = { username: 'ada', password: 'password of ada' }

function describeAccount(): void {
  let browser: Browser
  let server: ConsoleServer
  /** Browsers trust only a loopback address without TLS. */
  let url: string
  let context: BrowserContext
  let page: Page
  let faults: readonly string[]
  before(async () => {
    browser = await startBrowser()
    server = await startConsole({ HOST: '0.0.0.0' })
    url = `http://127.0.0.1:${server.port}`
    ;({ context, page, faults } = await visit(browser, url))
    await create('/api/user/', { ...ADMIN, role: 10 })
  })
  after(async () => {
    await server.close()
    await browser.close()
  })

  async function create(path: string, body: object) {
    const reply = await server.api('POST', path, body)
    assert.equal(reply.status, 200, reply.text)
    return reply.body.data
  }
  async function newUser(username: string) {
    const user = { username, password: `password of ${username}` }
    return { ...user, id: (await create('/api/user/', user)).id as number }
  }
  /** A page of the console, opened by a signed-in user; its scripts must not fail. */
  async function onPage(
    path: string,
    user: { username: string; password: string },
    work: (page: Page) => Promise<void>,
  ): Promise<void> {
    await context.clearCookies()
    await signIn(page, url, user)
    await page.goto(`${url}${path}`)
    await work(page)
    assert.deepEqual(faults, [])
  }
  const canSignIn = async ({ username, password }: { username: string; password: string }) =>
    (await server.api('POST', '/api/user/login', { username, password }, { token: null })).status === 200

  it('deletes an account only with its password', async () => {
    const user = await newUser('leaving')
    await onPage('/me', user, async page => {
      await page.getByRole('button', { name: 'Delete account' }).click()
      const dialog = page.getByRole('dialog')
      const confirm = dialog.getByRole('button', { name: 'Delete account' })
      assert.equal(await confirm.isDisabled(), true)
      await dialog.getByLabel('Your password').fill('not the password')
      await confirm.click()
      await dialog.getByText('Wrong username or password.').waitFor()
      assert.equal(await canSignIn(user), true)
      await dialog.getByLabel('Your password').fill(user.password)
      await confirm.click()
      await page.waitForURL('**/sign-in')
    })
    assert.equal(await canSignIn(user), false)
  })

  it('offers to revoke access tokens with a new password', async () => {
    const user = await newUser('changing')
    await onPage('/me', user, async page => {
      const token = await page.evaluate(async () => {
        const reply = await fetch('/api/user/token')
        return ((await reply.json()) as { data: string }).data
      })
      const isAlive = async () =>
        (await server.api('GET', '/api/user/self', undefined, { token })).status === 200
      assert.equal(await isAlive(), true)
      await page.getByLabel('Current password').fill(user.password)
      await page.getByLabel('New password', { exact: true }).fill('another password')
      await page.getByLabel('Confirm new password').fill('another password')
      await page.getByLabel('Also revoke all my access tokens').check()
      await page.getByRole('button', { name: 'Change password' }).click()
      // The session has ended with the old password: the page asks to sign in again.
      await page.getByRole('dialog').getByLabel('Password').fill('another password')
      await page.keyboard.press('Enter')
      await page.getByText('Password changed.').waitFor()
      assert.equal(await isAlive(), false)
    })
    assert.equal(await canSignIn({ ...user, password: 'another password' }), true)
  })

  it('offers the same when an administrator resets a password', async () => {
    const user = await newUser('reset')
    await onPage(`/users/${user.id}`, ADMIN, async page => {
      assert.equal(await page.getByLabel('Also revoke all access tokens of this user').count(), 0)
      await page.getByLabel('New password').fill('another password')
      await page.getByLabel('Also revoke all access tokens of this user').check()
      const update = page.waitForRequest(request => request.method() === 'PUT')
      await page.getByRole('button', { name: 'Save' }).click()
      assert.equal((await update).postDataJSON().revoke_access_tokens, true)
      await page.getByText(/saved/i).first().waitFor()
    })
    assert.equal(await canSignIn({ ...user, password: 'another password' }), true)
  })

  it('informs an Admin that a changed host needs the key again', async () => {
    const { id } = await create('/api/channel/', {
      mode: 'single',
      channel: {
        name: 'kept',
        type: 1,
        key: 'a-stored-key-1234',
        models: 'm',
        base_url: 'http://127.0.0.1:9',
      },
    })
    await onPage(`/channels/${id}/edit`, ADMIN, async page => {
      await page.getByText(/Re-enter the key when you change the host/).waitFor()
      await page.getByLabel('Base URL').fill('http://127.0.0.1:10')
      await page.getByRole('button', { name: 'Save', exact: true }).click()
      await page.getByText('must be sent again because the origin of base_url changes').waitFor()
      await page.getByLabel('API key', { exact: true }).fill('a-new-key-5678')
      await page.getByRole('button', { name: 'Save', exact: true }).click()
      await page.waitForURL(new RegExp(`/channels/${id}$`))
    })
    const { body } = await server.api('GET', `/api/channel/${id}`)
    assert.equal(body.data.base_url, 'http://127.0.0.1:10')
  })

  it('shows administrators how the gateway is exposed', async () => {
    await server.api('GET', '/api/user/self', undefined, { headers: { 'x-forwarded-for': '198.51.100.1' } })
    await onPage('/', ADMIN, async page => {
      await page.getByText('The gateway listens on 0.0.0.0 without TLS').waitFor()
      await page.getByText('127.0.0.1 sends X-Forwarded headers').waitFor()
    })
  })
}

describe(
  'the console, for accounts and administrators',
  { skip: skipWithout(import.meta.filename, 'chromium') },
  describeAccount,
)
