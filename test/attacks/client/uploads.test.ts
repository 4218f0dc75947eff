import assert from 'node:assert/strict'
import { request } from 'node:http'
import { before, describe, it } from 'node:test'
import { until } from '../../support/process.ts'
import { suiteRelay } from '../../support/relay.ts'

const MB = 1_048_576

describe('uploads that use up the disk budget', () => {
  const relay = suiteRelay('sqlite', { SLUICE_MAX_TMP_MB: '10' })
  let key: string
  let model: string

  before(async () => {
    model = (await relay.serve('sim-transcribe', {}, { per_minute: 0.006 })).model
    key = (await relay.newToken({ unlimited_quota: true })).key
  })

  const form = (bytes: number) => {
    const data = new FormData()
    data.set('model', model)
    data.set('file', new Blob([Buffer.alloc(bytes)]), 'sound.wav')
    return data
  }
  const upload = async (bytes: number) => {
    const response = await fetch(`${relay.gateway.url}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: form(bytes),
    })
    const text = await response.text()
    return { status: response.status, code: (JSON.parse(text) as { error?: { code: string } }).error?.code }
  }

  /** An upload whose last bytes are never sent. */
  async function begin(bytes: number) {
    const whole = new Response(form(bytes))
    const type = whole.headers.get('content-type') ?? ''
    const body = Buffer.from(await whole.arrayBuffer())
    const sending = request(`${relay.gateway.url}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': type, 'content-length': body.length },
    })
    sending.on('error', () => {})
    const status = new Promise<number | undefined>(resolve =>
      sending.once('response', response => resolve(response.statusCode)),
    )
    const drain = new Promise<void>(resolve => {
      sending.once('drain', resolve)
      // A gateway that refuses the upload closes the connection before it has read all of it.
      sending.once('close', resolve)
    })
    if (!sending.write(body.subarray(0, -100))) await drain
    return { status, end: () => sending.destroy() }
  }

  it('get one of them a 503 overloaded, and release their space when their clients disconnect', async () => {
    const uploads = await Promise.all([7 * MB, 7 * MB, 7 * MB].map(begin))
    assert.equal(await Promise.any(uploads.map(({ status }) => status)), 503)
    for (const { end } of uploads) end()
    // The bytes are not audio, which the gateway detects once it has all of them.
    await until('room', async () => ((await upload(7 * MB)).status === 503 ? undefined : true))
  })

  it('are refused individually if one is larger than the budget', async () => {
    assert.deepEqual(await upload(12 * MB), { status: 503, code: 'overloaded' })
  })
})
