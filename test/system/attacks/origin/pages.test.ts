import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, it } from 'node:test'
import type { Browser, BrowserContext } from 'playwright-core'
import { startBrowser } from '../../../support/browser.ts'
import { ROOT_PASSWORD } from '../../../support/gateway.ts'
import {
  type ScriptedServer,
  startFilmProvider,
  startScriptedServer,
} from '../../../support/hostile-provider.ts'
import { skipWithout } from '../../../support/programs.ts'
import { openVideos, type VideoRelay } from '../../../support/videos.ts'

const REPLICATE = 56

/**
 * The response of the attacker's provider: rendered as a page, it reads the account of the signed-in user.
 */
const SCRIPT = `<script>
fetch('/api/user/self').then(reply => reply.json()).then(({ data }) => { document.title = 'read ' + data.role })
</script>`

function describePages(): void {
  let browser: Browser
  let relay: VideoRelay
  let provider: ScriptedServer
  let foreign: ScriptedServer
  let page = ''
  let model: string
  let key: string
  let filmId: string
  let root: BrowserContext
  before(async () => {
    browser = await startBrowser()
    relay = await openVideos('sqlite')
    provider = await startFilmProvider(
      () => `${provider.url}/film`,
      ({ url = '' }, response) => {
        if (url === '/film') {
          response.writeHead(200, { 'content-type': 'video/mp4' })
          return response.end('a film')
        }
        const message = { role: 'assistant', content: SCRIPT }
        response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
        return response.end(
          JSON.stringify({
            id: 'c',
            object: 'chat.completion',
            model: 'm',
            choices: [{ index: 0, message, finish_reason: 'stop' }],
          }),
        )
      },
    )
    foreign = await startScriptedServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end(page)
    })
    model = (await relay.serve('m', { base_url: provider.url })).model
    const film = await relay.offer(
      'owner/film',
      { per_call: 0.5 },
      { type: REPLICATE, base_url: provider.url },
    )
    const opened = await relay.open({ unlimited_quota: true })
    key = opened.key
    filmId = (await opened.sdk.videos.create({ model: film.model, prompt: 'p' })).id
    await relay.untilEnded(opened.sdk, filmId)
    root = await browser.newContext()
    const signedIn = await root.request.post(`${relay.gateway.url}/api/user/login`, {
      data: { username: 'root', password: ROOT_PASSWORD },
    })
    assert.equal(signedIn.status(), 200)
  })
  after(async () => {
    await browser.close()
    await relay.gateway.close()
    await provider.close()
    await foreign.close()
  })

  it('cannot render a provider’s response on the console’s origin with a form', async () => {
    const body = { model, messages: [{ role: 'user', content: 'hi' }], user: '' }
    const [name = '', value = ''] = JSON.stringify(body).split('"user":"')
    page = `<form id=f method=post enctype=text/plain action="${relay.gateway.url}/v1/chat/completions?key=${key}">
      <input name='${name}"user":"' value='${value}'></form><script>f.submit()</script>`
    const tab = await root.newPage()
    const requestsBefore = provider.seen.length
    // Another site, not merely another port: the same machine under another name.
    await tab.goto(`http://localhost:${foreign.port}/`)
    await tab.waitForURL(/\/v1\/chat\/completions/)
    await tab.waitForLoadState('networkidle')
    assert.doesNotMatch(await tab.title(), /read/)
    assert.match(await tab.content(), /cross_site_refused/)
    assert.equal(provider.seen.length, requestsBefore)
    await tab.close()
  })

  it('cannot frame a response, nor load it as a script or an image', async () => {
    const address = `${relay.gateway.url}/v1/models?key=${key}`
    page = `<iframe src="${address}"></iframe><script src="${address}"></script><img src="${address}">`
    const tab = await root.newPage()
    const statuses: number[] = []
    tab.on('response', response => {
      if (response.url() === address) statuses.push(response.status())
    })
    await tab.goto(`http://localhost:${foreign.port}/`)
    await tab.waitForLoadState('networkidle')
    // The browser itself blocks responses that are neither a script nor an image.
    assert.ok(statuses.length > 0)
    assert.ok(
      statuses.every(status => status === 403),
      String(statuses),
    )
    await tab.close()
  })

  it('can call the relay by a script with a token, and read the response', async () => {
    page = '<title>app</title>'
    const tab = await root.newPage()
    await tab.goto(`http://localhost:${foreign.port}/`)
    const read = (url: string, token: string, requestBody: unknown) =>
      fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(requestBody),
      }).then(async reply => ({ status: reply.status, text: await reply.text() }))
    const body = { model, messages: [{ role: 'user', content: 'hi' }] }
    const { status, text } = (await tab.evaluate(
      `(${read})(...${JSON.stringify([`${relay.gateway.url}/v1/chat/completions`, key, body])})`,
    )) as { status: number; text: string }
    assert.equal(status, 200, text)
    await tab.close()
  })

  const filmAddress = () => `${relay.gateway.url}/v1/videos/${filmId}/content`

  it('a signed-in user opens the address of a completed video, and the browser saves it', async () => {
    const tab = await root.newPage()
    const saving = tab.waitForEvent('download')
    await tab.goto(filmAddress()).catch(error => assert.match(error.message, /Download is starting/))
    const download = await saving
    assert.equal(download.suggestedFilename(), `${filmId}.mp4`)
    assert.equal(await readFile(await download.path(), 'latin1'), 'a film')
    await tab.close()
  })

  it('no other client can: not without a session, not from another site, not with ?key=', async () => {
    const stranger = await browser.newContext()
    const other = await stranger.newPage()
    assert.equal((await other.goto(filmAddress()))?.status(), 401)
    assert.equal((await other.goto(`${filmAddress()}?key=${key}`))?.status(), 401)
    await stranger.close()
    const tab = await root.newPage()
    assert.equal((await tab.goto(`${filmAddress()}?key=sk-of-someone-else`))?.status(), 401)
    page = `<a href="${filmAddress()}">film</a>`
    await tab.goto(`http://localhost:${foreign.port}/`)
    const answered = tab.waitForResponse(filmAddress())
    await tab.click('a')
    assert.equal((await answered).status(), 401)
    await tab.close()
  })
}

describe('a web page of another site', { skip: skipWithout(import.meta.filename, 'chromium') }, describePages)
