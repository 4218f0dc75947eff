import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Replay, startReplay } from '../support/replay.ts'
import { openVideos, type VideoRelay } from '../support/videos.ts'

type Fields = Readonly<Record<string, unknown>>

const SEEDANCE = 45
const PER_SECOND = { per_second: 0.01 }
const SECOND_NANOS = 10_000_000

describe('a channel override for a video job', () => {
  let relay: VideoRelay
  let replay: Replay
  before(async () => {
    relay = await openVideos('sqlite')
    replay = await startReplay()
    const answer = () => ({ body: { id: `job-${replay.seen.length}`, status: 'queued' } })
    const paths = ['/v1/videos', '/api/v3/contents/generations/tasks']
    replay.play([
      ...paths.map(path => ({ method: 'POST', path, answer })),
      {
        method: 'POST',
        path: '/v1/videos/text2video',
        answer: () => ({ body: { code: 0, data: { task_id: 'k-1' } } }),
      },
      {
        method: 'POST',
        path: '/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31',
        answer: () => ({ body: { code: 10_000, data: { task_id: 'j-1' } } }),
      },
    ])
  })
  after(async () => {
    await relay.gateway.close()
    replay.close()
  })

  const submitted = () => replay.seen.filter(({ method }) => method === 'POST')

  async function submit(channel: Fields, body: Fields, price: Fields = PER_SECOND) {
    const { model } = await relay.offer('seen-as', price, { base_url: replay.url, ...channel })
    const { id, key } = await relay.open({ remain_quota: 5_000_000 })
    const before = submitted().length
    const reply = await relay.api(
      'POST',
      '/v1/videos',
      { model, prompt: 'A lake', ...body },
      { token: key, headers: { 'x-session': 'abc' } },
    )
    return { reply, tokenId: id, sent: submitted().slice(before) }
  }

  const OPERATIONS = [
    { mode: 'set', path: 'watermark', value: false },
    { mode: 'append', path: 'content.0.text', value: ', in oil' },
    { mode: 'delete', path: 'seed' },
    { mode: 'pass_headers', value: ['x-session'] },
  ]

  it('is applied to the JSON of a vendor, in its format, with its headers', async () => {
    const param_override = { camera_fixed: true, operations: OPERATIONS }
    const { reply, sent: providerRequests } = await submit(
      { type: SEEDANCE, param_override },
      { duration: 5, seed: 7 },
    )
    assert.equal(reply.status, 200, reply.text)
    const [call] = providerRequests
    assert.deepEqual(call?.body, {
      model: 'seen-as',
      content: [{ type: 'text', text: 'A lake, in oil' }],
      duration: 5,
      camera_fixed: true,
      watermark: false,
    })
    assert.equal(call?.headers['x-session'], 'abc')
  })

  it('is applied to the fields of a form', async () => {
    const param_override = {
      style: 'noir',
      operations: [
        { mode: 'prepend', path: 'prompt', value: 'Slowly: ' },
        { mode: 'delete', path: 'size' },
      ],
    }
    const { reply, sent: providerRequests } = await submit(
      { param_override },
      { duration: 4, width: 1280, height: 720 },
    )
    assert.equal(reply.status, 200, reply.text)
    const form = await new Response(providerRequests[0]?.body, {
      headers: { 'content-type': providerRequests[0]?.headers['content-type'] ?? '' },
    }).formData()
    assert.deepEqual(Object.fromEntries(form), {
      model: 'seen-as',
      prompt: 'Slowly: A lake',
      seconds: '4',
      style: 'noir',
    })
  })

  it('is charged if it makes the video longer, and the request is not sent if it would not be', async () => {
    const longer = await submit({ type: SEEDANCE, param_override: { duration: 10 } }, { duration: 5 })
    assert.equal(longer.sent[0]?.body.duration, 10)
    assert.equal((await relay.rowOf(longer.tokenId)).cost, 10 * SECOND_NANOS)
    const operations = [{ mode: 'set', path: 'duration', value: 10 }]
    const hidden = await submit({ type: SEEDANCE, param_override: { operations } }, { duration: 5 })
    assert.equal(hidden.reply.status, 502)
    assert.deepEqual(hidden.sent, [])
    assert.equal(await relay.usedBy(hidden.tokenId), 0)
    const byCall = { per_call: 0.5 }
    const flat = await submit({ type: SEEDANCE, param_override: { operations } }, { duration: 5 }, byCall)
    assert.equal(flat.reply.status, 200, flat.reply.text)
  })

  it('may respond in place of the provider', async () => {
    const value = { message: 'no videos on Sundays', status_code: 418, skip_retry: true }
    const param_override = { operations: [{ mode: 'return_error', value }] }
    const {
      reply,
      sent: providerRequests,
      tokenId,
    } = await submit({ type: SEEDANCE, param_override }, { duration: 5 })
    assert.equal(reply.status, 418)
    assert.match(reply.body.error.message, /Sundays/)
    assert.deepEqual(providerRequests, [])
    assert.equal(await relay.usedBy(tokenId), 0)
  })

  it('allows no more video than duration and n state', async () => {
    for (const body of [
      { duration: 5, metadata: { duration: 10 } },
      { duration: 5, prompt: 'A lake --duration 10' },
      { duration: 5, metadata: { content: [{ type: 'text', text: 'A lake --dur 10' }] } },
      { metadata: { n: 3 } },
    ]) {
      const { reply, sent: providerRequests } = await submit({ type: SEEDANCE }, body)
      assert.equal(reply.status, 400, reply.text)
      assert.deepEqual(providerRequests, [])
    }
    const own = await submit({ type: SEEDANCE }, { metadata: { duration: 8 } })
    assert.equal((await relay.rowOf(own.tokenId)).cost, 8 * SECOND_NANOS)
  })

  it('does not let the vendor choose the length, nor read one that the gateway does not read', async () => {
    const lengths = [
      { duration: -1 },
      { duration: 0 },
      { duration: ' 10' },
      { duration: 'auto' },
      { frames: true },
    ]
    for (const fields of [...lengths, { n: ' 4' }, { settings: { duration: '１０' } }])
      for (const body of [{ metadata: fields }, { duration: 5, metadata: fields }]) {
        const { reply, sent: providerRequests } = await submit({ type: SEEDANCE }, body)
        assert.equal(reply.status, 400, `${JSON.stringify(body)} ${reply.text}`)
        assert.deepEqual(providerRequests, [])
      }
    const frames = [{ url: 'https://images.example/1.png' }]
    const { reply } = await submit({ type: SEEDANCE }, { metadata: { duration: '8', frames, n: null } })
    assert.equal(reply.status, 200, reply.text)
  })

  it('allows no more expensive size or resolution than is charged, in any field', async () => {
    const price = {
      ...PER_SECOND,
      variants: [
        { when: { resolution: '1080P' }, per_second: 0.05 },
        { when: { size: '1792x1024' }, per_second: 0.03 },
      ],
    }
    for (const [type, body] of [
      [1, { size: '1280x720', metadata: { size: '1792x1024' } }],
      [1, { width: 1280, height: 720, size_hint: 'x', resolution: '1080p' }],
      [SEEDANCE, { width: 1280, height: 720, metadata: { resolution: '1080p' } }],
      [SEEDANCE, { prompt: 'A lake --resolution 1080p' }],
      [SEEDANCE, { metadata: { resolution: '480p', size: '1920*1080' } }],
      [SEEDANCE, { metadata: { quality_level: 'low', quality: 'high' } }],
    ] as const) {
      const { reply, sent: providerRequests } = await submit({ type }, { duration: 5, ...body }, price)
      assert.equal(reply.status, 400, `${JSON.stringify(body)}: ${reply.text}`)
      assert.deepEqual(providerRequests, [])
    }
    for (const [type, body, nanos] of [
      [1, { metadata: { size: '1792x1024' } }, 30_000_000],
      [1, { resolution: '1080p' }, 50_000_000],
      [SEEDANCE, { resolution: '1080P' }, 50_000_000],
      [SEEDANCE, { metadata: { resolution: 1080 } }, 50_000_000],
      [SEEDANCE, { width: 1280, height: 720, metadata: { resolution: '720P' } }, SECOND_NANOS],
    ] as const) {
      const { reply, tokenId } = await submit({ type }, { duration: 5, ...body }, price)
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await relay.rowOf(tokenId)).cost, 5 * nanos, JSON.stringify(body))
    }
  })

  it('keeps unknown fields for every vendor, in a form as numbers and booleans', async () => {
    const { sent: providerRequests } = await submit({ type: SEEDANCE }, { duration: 5, watermark: false })
    assert.equal(providerRequests[0]?.body.watermark, false)
    const { model } = await relay.offer('seen-as', PER_SECOND, { base_url: replay.url, type: SEEDANCE })
    const { key } = await relay.open()
    const form = new FormData()
    const fields = {
      model,
      prompt: 'A lake',
      duration: '5',
      generate_audio: 'true',
      motion: '0.5',
      code: '007',
    }
    for (const [name, value] of Object.entries(fields)) form.append(name, value)
    form.append('metadata[serial]', '0042')
    assert.equal((await relay.post('/v1/videos', key, form)).status, 200)
    const { generate_audio, motion, code, serial } = submitted().at(-1)?.body ?? {}
    assert.deepEqual(
      { generate_audio, motion, code, serial },
      { generate_audio: true, motion: 0.5, code: '007', serial: '0042' },
    )
  })

  it('allows no other model, nor the name of another job, in vendor-specific fields', async () => {
    const metadata = { model: 'dear', model_name: 'dear', req_key: 'dear', external_task_id: 'video_another' }
    for (const [type, key] of [
      [50, 'a-key'],
      [51, 'access|secret'],
    ] as const) {
      const { reply, sent: providerRequests } = await submit({ type, key }, { duration: 5, metadata })
      assert.equal(reply.status, 200, reply.text)
      const { model_name, req_key, external_task_id } = providerRequests[0]?.body ?? {}
      assert.equal(type === 50 ? model_name : req_key, 'seen-as')
      if (type === 50) assert.equal(external_task_id, reply.body.id)
    }
  })
})
