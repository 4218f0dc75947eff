import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Replay, startReplay } from './support/replay.ts'
import { openVideos, type VideoRelay } from './support/videos.ts'

type Fields = Readonly<Record<string, unknown>>

const SEEDANCE = 45
const PER_SECOND = { per_second: 0.01 }
const SECOND_NANOS = 10_000_000

describe('what a channel overrides in a video job', () => {
  let relay: VideoRelay
  let replay: Replay
  before(async () => {
    relay = await openVideos('sqlite')
    replay = await startReplay()
    const answer = () => ({ body: { id: `job-${replay.seen.length}`, status: 'queued' } })
    const paths = ['/v1/videos', '/api/v3/contents/generations/tasks']
    replay.play(paths.map(path => ({ method: 'POST', path, answer })))
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

  it('is applied to the JSON of a vendor, in its words, with its headers', async () => {
    const param_override = { camera_fixed: true, operations: OPERATIONS }
    const { reply, sent } = await submit({ type: SEEDANCE, param_override }, { duration: 5, seed: 7 })
    assert.equal(reply.status, 200, reply.text)
    const [call] = sent
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
    const { reply, sent } = await submit({ param_override }, { duration: 4, width: 1280, height: 720 })
    assert.equal(reply.status, 200, reply.text)
    const form = await new Response(sent[0]?.body, {
      headers: { 'content-type': sent[0]?.headers['content-type'] ?? '' },
    }).formData()
    assert.deepEqual(Object.fromEntries(form), {
      model: 'seen-as',
      prompt: 'Slowly: A lake',
      seconds: '4',
      style: 'noir',
    })
  })

  it('is paid for where it makes the video longer, and goes nowhere where that would not be', async () => {
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

  it('may answer in the place of the provider', async () => {
    const value = { message: 'no videos on Sundays', status_code: 418, skip_retry: true }
    const param_override = { operations: [{ mode: 'return_error', value }] }
    const { reply, sent, tokenId } = await submit({ type: SEEDANCE, param_override }, { duration: 5 })
    assert.equal(reply.status, 418)
    assert.match(reply.body.error.message, /Sundays/)
    assert.deepEqual(sent, [])
    assert.equal(await relay.usedBy(tokenId), 0)
  })

  it('leaves no way to make more of a video than is said by duration and n', async () => {
    for (const body of [
      { duration: 5, metadata: { duration: 10 } },
      { duration: 5, prompt: 'A lake --duration 10' },
      { metadata: { n: 3 } },
    ]) {
      const { reply, sent } = await submit({ type: SEEDANCE }, body)
      assert.equal(reply.status, 400, reply.text)
      assert.deepEqual(sent, [])
    }
    const own = await submit({ type: SEEDANCE }, { metadata: { duration: 8 } })
    assert.equal((await relay.rowOf(own.tokenId)).cost, 8 * SECOND_NANOS)
  })
})
