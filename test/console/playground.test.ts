import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { browserPath, signIn, startBrowser, visit } from '../support/browser.ts'
import { type ConsoleServer, startConsole } from '../support/console.ts'
import { ROOT_PASSWORD } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { furnish, type Showroom } from '../support/showroom.ts'
import { wavFile } from '../support/wav.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }

function describePlayground(): void {
  let browser: Browser
  let server: ConsoleServer
  let room: Showroom
  let page: Page
  let faults: readonly string[]
  const asked: { path: string; authorization: string | undefined }[] = []
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    room = await furnish(server.url, server.api, server.simulator.url)
    ;({ page, faults } = await visit(browser, server.origin))
    page.on('request', request => {
      const { authorization } = request.headers()
      if (request.method() !== 'GET') asked.push({ path: new URL(request.url()).pathname, authorization })
    })
    await signIn(page, server.url, ROOT)
  })
  after(async () => {
    await browser.close()
    await server.close()
  })

  const open = (tab: string) => page.goto(`${server.url}/playground?tab=${tab}`)
  const shown = () => page.getByRole('tabpanel')
  const run = () => shown().getByRole('button', { name: 'Run' }).click()
  /** The newest row of the usage log, once the one that a page shows is there. */
  async function costOf(link = shown().getByRole('link', { name: 'Open this request' }).first()) {
    const requestId = (await link.getAttribute('href'))?.split('/').at(-1) ?? ''
    const row = await until('the row', async () => {
      const { body } = await server.api('GET', `/api/log/?request_id=${requestId}`)
      return body.data.items[0]
    })
    return row as { cost: string; token_name: string; username: string }
  }

  it('offers to ask only when it is known which models there are', async () => {
    const known = Promise.withResolvers<void>()
    await page.route('**/api/pricing*', route => known.promise.then(() => route.continue()))
    await open('chat')
    await page.getByLabel('Message', { exact: true }).fill('Say something about water.')
    assert.ok(await shown().getByRole('button', { name: 'Run' }).isDisabled())
    known.resolve()
    await page.locator('button[type=submit]:enabled').waitFor()
    await page.unroute('**/api/pricing*')
  })

  it('chats as the person who is signed in: without a key, and the cost is the ledger’s', async () => {
    await open('chat')
    await page.getByLabel('Message', { exact: true }).fill('Say something about water.')
    await page.locator('button[type=submit]:enabled').waitFor()
    await page.keyboard.press('Enter')
    const { cost, token_name, username } = await costOf()
    assert.deepEqual([token_name, username], ['playground', 'root'])
    const dollars = await shown()
      .getByText(/^\$0\.\d{6}$/)
      .first()
      .textContent()
    assert.equal(Number(dollars?.slice(1)).toFixed(6), Number(cost).toFixed(6))
    assert.deepEqual(
      asked
        .filter(({ path }) => path.includes('/v1/'))
        .map(({ path, authorization }) => [path, authorization]),
      [['/api/playground/v1/chat/completions', undefined]],
    )
  })

  it('runs as a token of the person, and never asks for its value', async () => {
    await open('chat')
    await page.getByLabel('Runs as').selectOption('search-backend')
    await page.getByRole('button', { name: 'Write a haiku about water.' }).click()
    assert.equal((await costOf()).token_name, 'search-backend')
    assert.deepEqual(
      asked.filter(({ path }) => path.endsWith('/key')),
      [],
    )
  })

  it('stops at once when it is told to, and says that what was said is paid', async () => {
    await server.api('POST', '/api/channel/', {
      name: 'Slow',
      type: 1,
      key: 'sk-slow',
      base_url: server.simulator.url,
      models: ['gpt-5-mini'],
      model_mapping: { 'gpt-5-mini': 'sim-words-900-pace-50' },
    })
    await page.goto(`${server.url}/playground?model=gpt-5-mini`)
    await page.getByRole('button', { name: 'Write a haiku about water.' }).click()
    await page
      .getByRole('log')
      .getByText(/\w+ \w+/)
      .last()
      .waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped. What was generated is paid.').waitFor()
    const row = await until('the row', async () => {
      const { body } = await server.api('GET', '/api/log/?model_name=gpt-5-mini')
      return body.data.items[0] as { completion_tokens: number } | undefined
    })
    assert.ok(row.completion_tokens < 900)
  })

  it('asks several models the same, side by side', async () => {
    await open('compare')
    await shown().getByRole('button', { name: 'Add a model' }).click()
    await page.getByRole('button', { name: 'Explain a sluice gate in two sentences.' }).click()
    await until('three answers', async () =>
      (await shown().getByRole('link', { name: 'Open this request' }).count()) === 3 ? true : undefined,
    )
    assert.equal(await shown().getByRole('log').getByRole('list').count(), 3)
  })

  it('makes pictures, and shows the call as code with a placeholder for the key', async () => {
    await open('images')
    await page.getByRole('button', { name: 'A paper boat on a canal' }).click()
    await run()
    await shown().locator('img').first().waitFor()
    await shown().getByText('Show as code').click()
    const code = (await shown().locator('[data-snippet]').textContent()) ?? ''
    assert.match(code, /curl http.*\/v1\/images\/generations/)
    assert.match(code, /Bearer sk-…/)
    assert.match(code, /paper boat/)
  })

  it('speaks', async () => {
    await open('speech')
    await page.getByRole('button', { name: /^The gate opens/ }).click()
    await run()
    await shown().locator('audio').waitFor()
    await costOf()
  })

  it('writes down what it hears', async () => {
    await open('transcription')
    await shown()
      .getByLabel('Recording')
      .setInputFiles({ name: 'speech.wav', mimeType: 'audio/wav', buffer: wavFile(2) })
    await run()
    await costOf()
    await shown().getByRole('button', { name: 'Copy', exact: true }).waitFor()
  })

  it('judges texts, and puts documents in order', async () => {
    await open('moderation')
    await page.getByRole('button', { name: /^I love this product/ }).click()
    await run()
    await shown().getByRole('rowheader').first().waitFor()
    await open('rerank')
    await page.getByRole('button', { name: 'What controls the flow of water?' }).click()
    await run()
    await shown().getByText('was number 1').waitFor()
    assert.equal(await shown().locator('ol > li').count(), 3)
  })

  it('says what is wrong, and what to do about it', async () => {
    await open('rerank')
    await page.getByRole('button', { name: 'What controls the flow of water?' }).click()
    await shown().getByLabel('Model').fill('nobody-serves-this')
    await run()
    await shown().getByRole('alert').getByText('model_not_found').waitFor()
  })

  it('follows a video from the prompt to the film, and plays it', async () => {
    await page.goto(`${server.url}/playground?tab=video&model=sora-2`)
    await page.getByRole('button', { name: /^A calm lake/ }).click()
    await run()
    await shown().getByRole('button', { name: 'Play' }).click()
    const film = await shown().locator('video').getAttribute('src')
    const answer = (await page.evaluate(
      `fetch(${JSON.stringify(film)}, { headers: { range: 'bytes=0-3' } }).then(r => [r.status, r.headers.get('content-type')])`,
    )) as [number, string]
    assert.deepEqual(answer, [206, 'video/mp4'])
    await shown().getByRole('link', { name: 'Open this job' }).click()
    await page.getByRole('complementary').getByText('A calm lake at dawn, slow camera').waitFor()
  })

  it('gives a failed video back once, with a reason, and says so ever after', async () => {
    await page.goto(`${server.url}/videos?unrefunded=true`)
    await page.getByRole('cell', { name: 'not given back' }).first().click()
    const panel = page.getByRole('complementary')
    await panel.getByRole('button', { name: 'Give back' }).click()
    const dialog = page.getByRole('dialog', { name: 'Give back what it cost' })
    await dialog.getByText(/^\$2\.400000 goes back to the balance of root/).waitFor()
    assert.equal(await dialog.getByRole('button', { name: 'Give back' }).isDisabled(), true)
    await dialog.getByLabel('Reason').fill('the provider refused it')
    await dialog.getByRole('button', { name: 'Give back' }).click()
    await panel.getByText(/given back by user:1: the provider refused it/).waitFor()
    assert.equal(await panel.getByRole('button', { name: 'Give back' }).count(), 0)
    const { body } = await server.api('GET', `/api/video/${room.failedVideoId}`)
    assert.deepEqual(body.data.entries.map(({ kind }: { kind: string }) => kind).sort(), ['refund', 'settle'])
  })

  it('shows a user their own videos only, and no way to give anything back', async () => {
    const other = await visit(browser, server.origin)
    await signIn(other.page, server.url, { username: 'ana', password: 'password of ana' })
    await other.page.goto(`${server.url}/videos`)
    await other.page.getByText('No video jobs yet').waitFor()
    await other.page.goto(`${server.url}/videos/${room.videoId}`)
    await other.page.getByText('There is no such video job.').waitFor()
    await other.context.close()
  })

  it('deletes a job of one’s own when it was asked twice', async () => {
    await page.goto(`${server.url}/videos/${room.videoId}`)
    await page.getByRole('complementary').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('The video job was deleted.').waitFor()
    assert.equal((await server.api('GET', `/api/video/${room.videoId}`)).status, 404)
  })

  it('makes no error, breaks no policy and asks no other host while all this happens', () => {
    assert.deepEqual(faults, [])
  })
}

describe('the playground and videos in a browser', () => {
  if (browserPath() !== undefined) describePlayground()
  else
    it('needs Chromium: install it, or name it in CHROMIUM_PATH', () => {
      assert.notEqual(process.env.CI, 'true', 'no browser was found')
      console.log('no browser was found: the playground was not tested')
    })
})
