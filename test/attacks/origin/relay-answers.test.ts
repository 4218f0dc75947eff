import assert from 'node:assert/strict'
import { type IncomingHttpHeaders, request } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { ROOT_PASSWORD, ROOT_TOKEN } from '../../support/gateway.ts'
import { type ScriptedServer, startScriptedServer } from '../../support/hostile-provider.ts'
import { soundForm, suiteMedia } from '../../support/media.ts'
import { wavFile } from '../../support/wav.ts'

const PAGE = '<script>document.title = "taken over"</script>'
const POLICY = "sandbox; default-src 'none'"

type Sent = { readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
type Got = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string }

/** Sends headers as a current or an old browser does: fetch would add its own. */
const send = (method: string, url: string, { headers = {}, body }: Sent = {}) =>
  new Promise<Got>((resolve, reject) => {
    const sending = request(url, { method, headers }, response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      )
    })
    sending.on('error', reject)
    sending.end(body)
  })

const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html,*/*' }
const ELSEWHERE = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }

describe('responses of the relay, opened by a browser', () => {
  const relay = suiteMedia('sqlite')
  let provider: ScriptedServer
  let key: string
  const models: Record<string, string> = {}
  const at = (path: string) => `${relay.gateway.url}${path}`
  const bearer = () => ({ authorization: `Bearer ${key}` })

  before(async () => {
    provider = await startScriptedServer(({ url = '' }, response) => {
      const answer = (type: string, body: string) => {
        response.writeHead(200, { 'content-type': type, 'content-security-policy': '', 'set-cookie': 'a=b' })
        response.end(body)
      }
      const choice = { index: 0, message: { role: 'assistant', content: PAGE }, finish_reason: 'stop' }
      if (url.endsWith('/chat/completions'))
        answer(
          'text/html',
          JSON.stringify({ id: 'c', object: 'chat.completion', model: 'm', choices: [choice] }),
        )
      else if (url.endsWith('/audio/speech')) answer('image/svg+xml, text/html', PAGE)
      else if (url.endsWith('/audio/transcriptions')) answer('text/xml', PAGE)
      else if (url.endsWith('/embeddings'))
        answer(
          'text/html',
          JSON.stringify({
            object: 'list',
            model: 'm',
            data: [{ index: 0, object: 'embedding', embedding: [1] }],
          }),
        )
      else answer('text/html', PAGE)
    })
    const fields = { base_url: provider.url }
    for (const name of ['chat', 'embed', 'transcribe', 'speak'])
      models[name] = (await relay.serve(name, fields)).model
    key = (await relay.newToken({ unlimited_quota: true })).key
  })
  after(async () => {
    await provider.close()
  })

  const chat = (more: Sent = {}) =>
    send('POST', at('/v1/chat/completions'), {
      body: JSON.stringify({ model: models.chat, messages: [{ role: 'user', content: 'hi' }] }),
      ...more,
      headers: { 'content-type': 'application/json', ...bearer(), ...more.headers },
    })

  it('have a content type that the gateway chose, for any type from the provider', async () => {
    const whole = await chat()
    assert.equal(whole.status, 200, whole.text)
    assert.match(whole.headers['content-type'] ?? '', /^application\/json\b/)
    assert.equal(whole.headers['set-cookie'], undefined)
    const embedded = await send('POST', at('/v1/embeddings'), {
      headers: { 'content-type': 'application/json', ...bearer() },
      body: JSON.stringify({ model: models.embed, input: 'a' }),
    })
    assert.equal(embedded.status, 200, embedded.text)
    assert.match(embedded.headers['content-type'] ?? '', /^application\/json\b/)
    const form = soundForm(
      { model: models.transcribe ?? '', response_format: 'vtt' },
      new File([new Uint8Array(wavFile(1))], 'a.wav'),
    )
    const transcript = await relay.post('/v1/audio/transcriptions', key, form)
    assert.equal(transcript.status, 200, transcript.text)
    assert.match(transcript.headers.get('content-type') ?? '', /^text\/plain\b/)
    assert.equal(transcript.headers.get('content-security-policy'), POLICY)
    const speech = await send('POST', at('/v1/audio/speech'), {
      headers: { 'content-type': 'application/json', ...bearer() },
      body: JSON.stringify({ model: models.speak, input: 'a', voice: 'alloy' }),
    })
    assert.doesNotMatch(speech.headers['content-type'] ?? '', /svg|html|xml/)
  })

  it('are never documents of this origin: each has the headers for that, success or error', async () => {
    const answers = [
      await chat(),
      await chat({ headers: { authorization: 'Bearer sk-wrong' } }),
      await send('GET', at('/v1/models'), { headers: bearer() }),
      await send('GET', at('/v1/models/none'), { headers: bearer() }),
      await send('GET', at('/v1beta/models'), { headers: bearer() }),
      await send('OPTIONS', at('/v1/chat/completions')),
      await send('GET', at('/v1/nothing/here')),
      await send('GET', at('/v1beta/nothing')),
      await send('PUT', at('/v1/chat/completions'), { headers: bearer() }),
      await send('POST', at('/v1/messages'), { headers: bearer(), body: '{' }),
      await send('GET', at('/v1/videos'), { headers: bearer() }),
      await send('GET', at('/v1/dashboard/billing/subscription'), { headers: bearer() }),
      await send('GET', at('/v1/dashboard/billing/usage')),
      await send('GET', at('/dashboard/billing/usage')),
      await send('POST', at('/api/playground/v1/chat/completions'), {
        headers: { authorization: `Bearer ${ROOT_TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: models.chat, messages: [{ role: 'user', content: 'hi' }] }),
      }),
      await chat({ headers: NAVIGATION }),
    ]
    for (const [index, { headers, status }] of answers.entries()) {
      assert.equal(headers['x-content-type-options'], 'nosniff', `${index} (${status})`)
      assert.equal(headers['content-security-policy'], POLICY, `${index} (${status})`)
    }
  })

  const refused = ({ status, text }: Got, what: string) => {
    assert.equal(status, 403, `${what}: ${text}`)
    assert.match(text, /cross_site_refused|do(?:es)? not answer page navigations/, what)
  }

  it('are not returned to navigations, page elements and frames', async () => {
    const before = provider.seen.length
    refused(await chat({ headers: NAVIGATION }), 'a form')
    for (const path of [
      `/v1/models?key=${key}`,
      `/v1beta/models?key=${key}`,
      '/v1/videos',
      '/v1/dashboard/billing/usage',
    ])
      refused(await send('GET', at(path), { headers: { ...bearer(), ...NAVIGATION } }), path)
    for (const destination of ['iframe', 'frame', 'embed', 'object', 'document'])
      refused(await chat({ headers: { 'sec-fetch-dest': destination } }), destination)
    const tag = { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }
    refused(await send('GET', at(`/v1/models?key=${key}`), { headers: tag }), 'a script tag')
    assert.equal(provider.seen.length, before)
  })

  it('are not returned to forms of other sites', async () => {
    const before = provider.seen.length
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'Text/Plain;charset=utf-8']) {
      refused(await chat({ headers: { ...ELSEWHERE, 'content-type': type } }), type)
      refused(
        await chat({ headers: { origin: 'https://evil.example', 'content-type': type } }),
        `${type}, old`,
      )
      refused(await chat({ headers: { origin: 'null', 'content-type': type } }), `${type}, no origin`)
      refused(
        await chat({ headers: { 'sec-fetch-site': 'same-site', 'content-type': type } }),
        `${type}, site`,
      )
    }
    refused(
      await chat({ headers: { ...ELSEWHERE, 'sec-fetch-mode': 'no-cors', 'content-type': 'text/plain' } }),
      'fetch',
    )
    const old = {
      origin: 'https://evil.example',
      accept: 'text/html',
      'content-type': 'multipart/form-data; boundary=a',
    }
    refused(
      await send('POST', at('/v1/audio/transcriptions'), { headers: { ...bearer(), ...old } }),
      'multipart',
    )
    assert.equal(provider.seen.length, before)
  })

  it('are returned to scripts of any site, and to clients that are not browsers', async () => {
    const cors = { ...ELSEWHERE, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty', accept: '*/*' }
    assert.equal((await chat({ headers: cors })).status, 200)
    assert.equal((await chat({ headers: { origin: 'https://app.example' } })).status, 200)
    assert.equal((await chat({ headers: { 'content-type': 'text/plain' } })).status, 200)
    const own = { 'content-type': 'text/plain', origin: relay.gateway.url }
    assert.equal((await chat({ headers: own })).status, 200)
    const upload = { ...cors, 'content-type': 'multipart/form-data; boundary=a' }
    const form = await send('POST', at('/v1/audio/transcriptions'), {
      headers: { ...bearer(), ...upload },
      body: '--a--\r\n',
    })
    assert.equal(form.status, 400, form.text)
  })

  it('require a credential in a header, except model lists and Gemini’s paths', async () => {
    const withKey = (method: string, path: string, body?: string) =>
      send(method, at(`${path}?key=${key}`), {
        headers: { 'content-type': 'application/json' },
        ...(body !== undefined && { body }),
      })
    const body = JSON.stringify({ model: models.chat, messages: [{ role: 'user', content: 'hi' }] })
    for (const [method, path] of [
      ['POST', '/v1/chat/completions'],
      ['POST', '/v1/messages'],
      ['POST', '/v1/embeddings'],
      ['GET', '/v1/videos'],
      ['GET', '/v1/dashboard/billing/usage'],
      ['GET', '/v1/dashboard/billing/subscription'],
      ['GET', '/api/usage/token/'],
      ['GET', '/api/pricing'],
    ] as const)
      assert.equal((await withKey(method, path, method === 'POST' ? body : undefined)).status, 401, path)
    assert.equal((await withKey('GET', '/v1/models')).status, 200)
    assert.equal((await withKey('GET', `/v1/models/${models.chat}`)).status, 200)
    assert.equal((await withKey('GET', '/v1beta/models')).status, 200)
    const gemini = JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'hi' }] }] })
    assert.equal((await withKey('POST', `/v1beta/models/${models.chat}:generateContent`, gemini)).status, 200)
  })

  it('are not returned for a session cookie, and a session does not count beside ?key=', async () => {
    const signedIn = await send('POST', at('/api/user/login'), {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: 'root', password: ROOT_PASSWORD }),
    })
    const cookie = signedIn.headers['set-cookie']?.[0]?.split(';')[0] ?? ''
    const withSession = async (path: string) => (await send('GET', at(path), { headers: { cookie } })).status
    assert.equal(await withSession('/api/user/self'), 200)
    assert.equal(await withSession('/api/channel/test/999?key=0'), 404)
    for (const path of ['/api/user/self?key=sk-x', '/api/pricing?key=sk-x', '/api/user/self?key='])
      assert.equal(await withSession(path), 401, path)
    for (const path of ['/v1/models', '/v1/videos', '/v1/dashboard/billing/usage', `/v1/models?key=sk-x`])
      assert.equal(await withSession(path), 401, path)
  })
})
