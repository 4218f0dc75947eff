import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { follow, signIn, startBrowser, visit } from '../../support/browser.ts'
import { type ConsoleServer, startConsole } from '../../support/console.ts'
import { addContent, type ConsoleContent } from '../../support/console-content.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { wavFile } from '../../support/wav.ts'

const ROOT = { username: 'root', password: ROOT_PASSWORD }

function describePlayground(): void {
  let browser: Browser
  let server: ConsoleServer
  let content: ConsoleContent
  let page: Page
  let faults: readonly string[]
  const writes: { path: string; authorization: string | undefined }[] = []
  before(async () => {
    browser = await startBrowser()
    server = await startConsole()
    content = await addContent(server.url, server.api, server.simulator.url)
    ;({ page, faults } = await visit(browser, server.origin))
    page.on('request', request => {
      const { authorization } = request.headers()
      if (request.method() !== 'GET') writes.push({ path: new URL(request.url()).pathname, authorization })
    })
    await signIn(page, server.url, ROOT)
    await page.goto(`${server.url}/me`)
  })
  after(async () => {
    await browser.close()
    await server.close()
  })

  const open = (tab: string) => follow(page, `/playground?tab=${tab}`)
  const activeTab = () => page.getByRole('tabpanel')
  const run = () => activeTab().getByRole('button', { name: 'Send' }).click()
  /** The newest row of the usage log, once the row that a page shows is stored. */
  async function costOf(link = activeTab().getByRole('link', { name: 'View request' }).first()) {
    const requestId = (await link.getAttribute('href'))?.split('/').at(-1) ?? ''
    const row = await until('the row', async () => {
      const { body } = await server.api('GET', `/api/log/?request_id=${requestId}`)
      return body.data.items[0]
    })
    return row as { cost: string; token_name: string; username: string }
  }

  it('can send only after the models are loaded', async () => {
    const modelsLoaded = Promise.withResolvers<void>()
    await page.route('**/api/pricing*', route => modelsLoaded.promise.then(() => route.continue()))
    await open('chat')
    await page.getByLabel('Message', { exact: true }).fill('Say something about water.')
    assert.ok(await activeTab().getByRole('button', { name: 'Send' }).isDisabled())
    modelsLoaded.resolve()
    await page.locator('button[type=submit]:enabled').waitFor()
    await page.unroute('**/api/pricing*')
  })

  it('chats with the session of the user, without a key, and shows the ledger’s cost', async () => {
    await open('chat')
    await page.getByLabel('Message', { exact: true }).fill('Say something about water.')
    await page.locator('button[type=submit]:enabled').waitFor()
    await page.keyboard.press('Enter')
    const { cost, token_name, username } = await costOf()
    assert.deepEqual([token_name, username], ['playground', 'root'])
    const dollars = await activeTab()
      .getByText(/^\$0\.\d{6}$/)
      .first()
      .textContent()
    assert.equal(Number(dollars?.slice(1)).toFixed(6), Number(cost).toFixed(6))
    assert.deepEqual(
      writes
        .filter(({ path }) => path.includes('/v1/'))
        .map(({ path, authorization }) => [path, authorization]),
      [['/api/playground/v1/chat/completions', undefined]],
    )
  })

  it('bills to a token of the user without reading its key', async () => {
    await open('chat')
    await page.getByLabel('Bill to').selectOption('search-backend')
    await page.getByRole('button', { name: 'Write a haiku about water.' }).click()
    assert.equal((await costOf()).token_name, 'search-backend')
    assert.deepEqual(
      writes.filter(({ path }) => path.endsWith('/key')),
      [],
    )
  })

  it('stops on request, and says that generated tokens are billed', async () => {
    await server.api('POST', '/api/channel/', {
      name: 'Slow',
      type: 1,
      key: 'sk-slow',
      base_url: server.simulator.url,
      models: ['gpt-5-mini'],
      model_mapping: { 'gpt-5-mini': 'sim-words-900-pace-50' },
    })
    await follow(page, '/playground?model=gpt-5-mini')
    await page.getByRole('button', { name: 'Write a haiku about water.' }).click()
    await page
      .getByRole('log')
      .getByText(/\w+ \w+/)
      .last()
      .waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped. Generated tokens are billed.').waitFor()
    const row = await until('the row', async () => {
      const { body } = await server.api('GET', '/api/log/?model_name=gpt-5-mini')
      return body.data.items[0] as { completion_tokens: number } | undefined
    })
    assert.ok(row.completion_tokens < 900)
  })

  it('compares several models side by side', async () => {
    await open('compare')
    await activeTab().getByRole('button', { name: 'Add model' }).click()
    await page.getByRole('button', { name: 'Explain a sluice gate in two sentences.' }).click()
    await until('three answers', async () =>
      (await activeTab().getByRole('link', { name: 'View request' }).count()) === 3 ? true : undefined,
    )
    assert.equal(await activeTab().getByRole('log').getByRole('list').count(), 3)
  })

  it('generates images, and shows the request as code with a placeholder for the key', async () => {
    await open('images')
    await page.getByRole('button', { name: 'A paper boat on a canal' }).click()
    await run()
    await activeTab().locator('img').first().waitFor()
    await activeTab().getByText('View code').click()
    const code = (await activeTab().locator('[data-snippet]').textContent()) ?? ''
    assert.match(code, /curl http.*\/v1\/images\/generations/)
    assert.match(code, /SLUICE_API_KEY='sk-…'/)
    assert.match(code, /paper boat/)
  })

  it('generates speech', async () => {
    await open('speech')
    await page.getByRole('button', { name: /^The gate opens/ }).click()
    await run()
    await activeTab().locator('audio').waitFor()
    await costOf()
  })

  it('transcribes audio', async () => {
    await open('transcription')
    await activeTab()
      .getByLabel('Audio file')
      .setInputFiles({ name: 'speech.wav', mimeType: 'audio/wav', buffer: wavFile(2) })
    await run()
    await costOf()
    await activeTab().getByRole('button', { name: 'Copy', exact: true }).waitFor()
  })

  it('moderates texts and reranks documents', async () => {
    await open('moderation')
    await page.getByRole('button', { name: /^I love this product/ }).click()
    await run()
    await activeTab().getByRole('rowheader').first().waitFor()
    await open('rerank')
    await page.getByRole('button', { name: 'What controls the flow of water?' }).click()
    await run()
    await activeTab().getByText('was #1').waitFor()
    assert.equal(await activeTab().locator('ol > li').count(), 3)
  })

  it('shows the error of a request', async () => {
    await open('rerank')
    await page.getByRole('button', { name: 'What controls the flow of water?' }).click()
    await activeTab().getByLabel('Model').fill('unserved-model')
    await run()
    await activeTab().getByRole('alert').getByText('model_not_found').waitFor()
  })

  it('follows a video job from the prompt to playback', async () => {
    await follow(page, '/playground?tab=video&model=sora-2')
    await page.getByRole('button', { name: /^A calm lake/ }).click()
    await run()
    await activeTab().getByRole('button', { name: 'Play' }).click()
    const film = await activeTab().locator('video').getAttribute('src')
    const answer = (await page.evaluate(
      `fetch(${JSON.stringify(film)}, { headers: { range: 'bytes=0-3' } }).then(r => [r.status, r.headers.get('content-type')])`,
    )) as [number, string]
    assert.deepEqual(answer, [206, 'video/mp4'])
    await activeTab().getByRole('link', { name: 'View job' }).click()
    await page.getByRole('complementary').getByText('A calm lake at dawn, slow camera').waitFor()
  })

  it('refunds a failed video once, with a reason, and shows the refund', async () => {
    await follow(page, '/videos?unrefunded=true')
    await page.getByRole('cell', { name: 'Not refunded' }).first().click()
    const panel = page.getByRole('complementary')
    await panel.getByRole('button', { name: 'Refund' }).click()
    const dialog = page.getByRole('dialog', { name: 'Refund video job' })
    await dialog.getByText(/^\$2\.400000 is returned to the balance of root/).waitFor()
    assert.equal(await dialog.getByRole('button', { name: 'Refund' }).isDisabled(), true)
    await dialog.getByLabel('Reason').fill('the provider refused it')
    await dialog.getByRole('button', { name: 'Refund' }).click()
    await panel.getByText(/refunded by user:1: the provider refused it/).waitFor()
    assert.equal(await panel.getByRole('button', { name: 'Refund' }).count(), 0)
    const { body } = await server.api('GET', `/api/video/${content.failedVideoId}`)
    assert.deepEqual(body.data.entries.map(({ kind }: { kind: string }) => kind).sort(), ['refund', 'settle'])
  })

  it('shows a user only their own videos, without refunds', async () => {
    const other = await visit(browser, server.origin)
    await signIn(other.page, server.url, { username: 'ana', password: 'password of ana' })
    await other.page.goto(`${server.url}/videos`)
    await other.page.getByText('No video jobs yet').waitFor()
    await other.page.goto(`${server.url}/videos/${content.videoId}`)
    await other.page.getByText('Video job not found').waitFor()
    await other.context.close()
  })

  it('deletes an own job after a confirmation', async () => {
    await follow(page, `/videos/${content.videoId}`)
    await page.getByRole('complementary').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('Video job deleted').waitFor()
    assert.equal((await server.api('GET', `/api/video/${content.videoId}`)).status, 404)
  })

  it('causes no script error, no policy violation and no request to another host', () => {
    assert.deepEqual(faults, [])
  })
}

describe(
  'the playground and videos in a browser',
  { skip: skipWithout(import.meta.filename, 'chromium') },
  describePlayground,
)
