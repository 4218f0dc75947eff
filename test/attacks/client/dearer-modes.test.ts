import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { pricedFields } from '../../../src/media/video-modes.ts'
import { oneEngine } from '../../support/gateway.ts'
import { suiteRelay } from '../../support/relay.ts'
import { jsonAnswer, startVendor, type Vendor } from '../../support/scripted-vendor.ts'

type Fields = Readonly<Record<string, unknown>>

const KLING = 50
const NEW_API = 60
const SECOND_NANOS = 100_000_000

const PRICE = { per_second: 0.1 }
const MODES = {
  ...PRICE,
  variants: [
    { when: { mode: 'pro' }, per_second: 0.2 },
    { when: { mode: 'pro', sound: 'on' }, per_second: 0.4 },
    { when: { sound: 'on', resolution: '1080p' }, per_second: 0.3 },
  ],
}

for (const engine of oneEngine('sqlite')) {
  describe(`a client that requests a more expensive video mode, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let vendor: Vendor
    let modelCount = 0
    before(async () => {
      vendor = await startVendor(() =>
        jsonAnswer({ code: 0, id: 'v', data: { task_id: 'v', task_status: 'submitted' }, status: 'queued' }),
      )
    })
    after(async () => {
      await vendor.close()
    })

    /** The request to the vendor, the warning to the client, and the charge. */
    async function submit(ask: Fields, { type = KLING, price = PRICE as Fields, headers = {} } = {}) {
      const model = `kling-v1-${++modelCount}`
      await relay.addChannel({
        name: model,
        type,
        base_url: vendor.url,
        key: 'access|secret',
        models: [model],
      })
      await relay.must(relay.api('POST', '/api/price/', { model, ...price }))
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      const before = vendor.seen.length
      const requestBody = { model, prompt: 'p', duration: 5, ...ask }
      const reply = await relay.api('POST', '/v1/videos', requestBody, { token: key, headers })
      const sentBody = vendor.seen.slice(before).find(({ body }) => body !== '')?.body ?? ''
      const warnings = reply.headers.get('x-sluice-warnings') ?? ''
      const cost = reply.status === 200 ? (await relay.rowOf(id)).cost : 0
      return { reply, sent: sentBody, warnings, cost }
    }

    it('gets it only if it has a price: otherwise it is removed with a warning', async () => {
      for (const metadata of [
        { mode: 'pro' },
        { sound: 'on' },
        { generate_audio: true },
        { enableAudio: 1 },
        { settings: { mode: 'pro' } },
        { upscale: true },
        { service_plan: 'x' },
        { voice_list: [{ voice_id: 'v' }] },
      ]) {
        const [name = ''] = Object.keys(metadata)
        const {
          reply,
          sent: sentBody,
          warnings,
          cost,
        } = await submit({ metadata: { ...metadata, cfg_scale: 0.5 } })
        assert.equal(reply.status, 200, reply.text)
        const { settings, ...body } = JSON.parse(sentBody)
        assert.ok(!(name in body) && settings?.mode === undefined, `${name}: ${sentBody}`)
        assert.equal(body.cfg_scale, 0.5)
        assert.match(warnings, new RegExp(`${name}\\S* has no price and was left out`))
        assert.equal(cost, 5 * SECOND_NANOS)
      }
    })

    it('may request it outside of the metadata, with the same result', async () => {
      const { sent: sentBody, warnings } = await submit({ mode: 'pro' })
      assert.equal(JSON.parse(sentBody).mode, undefined)
      assert.match(warnings, /mode has no price/)
    })

    it('is refused if it is strict', async () => {
      const strict = { headers: { 'x-sluice-strict': 'true' } }
      const { reply, sent: sentBody } = await submit({ metadata: { mode: 'pro' } }, strict)
      assert.equal(reply.status, 400, reply.text)
      assert.equal(reply.body.error.code, 'invalid_parameter')
      assert.equal(sentBody, '')
    })

    it('pays its price if there is one, alone and combined', async () => {
      const price = { price: MODES }
      const pro = await submit({ metadata: { mode: 'pro' } }, price)
      assert.equal(JSON.parse(pro.sent).mode, 'pro')
      assert.equal(pro.cost, 5 * 2 * SECOND_NANOS)
      const both = await submit({ metadata: { mode: 'pro', sound: 'on' } }, price)
      assert.equal(JSON.parse(both.sent).sound, 'on')
      assert.equal(both.cost, 5 * 4 * SECOND_NANOS)
      const usual = await submit({ metadata: { mode: 'std', sound: 'off' } }, price)
      assert.deepEqual([JSON.parse(usual.sent).mode, usual.warnings], ['std', ''])
      assert.equal(usual.cost, 5 * SECOND_NANOS)
      // The price of audio is for another resolution.
      const small = await submit({ metadata: { sound: 'on' }, width: 1280, height: 720 }, price)
      assert.equal(JSON.parse(small.sent).sound, undefined)
      const large = await submit({ metadata: { sound: 'on' }, width: 1920, height: 1080 }, price)
      assert.equal(large.cost, 5 * 3 * SECOND_NANOS)
    })

    it('does not get it behind another gateway either, which is sent fields that this gateway does not know', async () => {
      const metadata = { mode: 'pro', style: 'noir', own_field: 'kept' }
      const { reply, sent: sentBody, warnings } = await submit({ metadata }, { type: NEW_API })
      assert.equal(reply.status, 200, reply.text)
      assert.match(sentBody, /name="own_field"\r\n\r\nkept/)
      assert.doesNotMatch(sentBody, /name="mode"/)
      assert.match(warnings, /mode has no price/)
    })
  })
}

for (const engine of oneEngine('postgres')) {
  describe(`a client that requests a more expensive speech mode, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let vendor: Vendor
    before(async () => {
      vendor = await startVendor(() => ({ type: 'audio/mpeg', body: 'sound' }))
    })
    after(async () => {
      await vendor.close()
    })

    it('is served without it, with a warning', async () => {
      const { model } = await relay.serve('tts', { base_url: vendor.url }, { per_call: 0.001 })
      const { key } = await relay.newToken()
      const requestBody = { model, input: 'Hi', voice: 'alloy', speed: 1.5, gain: 2 }
      const dearer = { mode: 'hd', service_tier: 'priority', turbo: true }
      const reply = await relay.api('POST', '/v1/audio/speech', { ...requestBody, ...dearer }, { token: key })
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(JSON.parse(vendor.seen.at(-1)?.body ?? ''), { ...requestBody, model: 'tts' })
      for (const name of Object.keys(dearer))
        assert.match(reply.headers.get('x-sluice-warnings') ?? '', new RegExp(`${name} has no price`))
    })

    it('is served without it if a header cannot hold its name, or all of it', async () => {
      const { model } = await relay.serve('tts', { base_url: vendor.url }, { per_call: 0.001 })
      const { id, key } = await relay.newToken()
      const body = {
        model,
        input: 'Hi',
        voice: 'alloy',
        'turbo\u7f51': true,
        [`hd${'x'.repeat(50_000)}`]: true,
      }
      const reply = await relay.api('POST', '/v1/audio/speech', body, { token: key })
      assert.equal(reply.status, 200, reply.text)
      assert.match(reply.headers.get('x-sluice-warnings') ?? '', /^turbo\? has no price/)
      const { cost, other } = await relay.rowOf(id)
      assert.equal(cost, 1_000_000)
      assert.ok(JSON.stringify(other.warnings).length < 5_000)
    })
  })
}

describe('vendor-specific fields', () => {
  it('are sent unchanged if none of them may cost more, known to the gateway or not', () => {
    const own = {
      negative_prompt: 'rain',
      style: 'noir',
      quality_level: 'high',
      camera_control: { type: 'x' },
      content_moderation: 'low',
      clip_skip: 2,
      own_field: [{ deep: 1 }],
    }
    assert.equal(pricedFields(own, {}).fields, own)
  })

  it('are removed at any depth and in any spelling if they may cost more', () => {
    const own = {
      settings: { list: [{ 'Generate-Audio': 'TRUE', seed: 1 }] },
      videoUpscaler: 2,
      batch_size: 4,
    }
    assert.deepEqual(pricedFields(own, {}), {
      fields: { settings: { list: [{ seed: 1 }] } },
      removed: ['videoUpscaler', 'batch_size', 'settings.list.0.Generate-Audio'],
    })
  })

  it('may request what the vendor does by default', () => {
    const own = { generate_audio: true, mode: 'pro' }
    assert.deepEqual(pricedFields(own, {}, { sound: 'on' }).removed, ['mode'])
  })
})
