import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Json, type Replay, startReplay } from '../support/replay.ts'
import { INLINE_PICTURE, openVideos, PICTURE, type VideoRelay, WIDE } from '../support/videos.ts'

type Call = { readonly method: string; readonly path: string; readonly body?: Json }

/** A vendor's jobs according to its documentation. */
type Shape = {
  readonly type: number
  readonly model: string
  readonly ask: Json
  readonly submit: Call
  readonly accepted: Json
  readonly poll: Call
  readonly running: Json
  readonly done: Json
  readonly failed: Json
  readonly code: string
}

const LAST = 'https://img.example/b.png'
const FILM = 'https://cdn.example/film.mp4'

const SHAPES: Readonly<Record<string, Shape>> = {
  siliconflow: {
    type: 40,
    model: 'Wan-AI/Wan2.2-I2V-A14B',
    ask: { ...WIDE, image: PICTURE, seed: 7, metadata: { negative_prompt: 'rain' } },
    submit: {
      method: 'POST',
      path: '/v1/video/submit',
      body: {
        model: 'Wan-AI/Wan2.2-I2V-A14B',
        prompt: 'p',
        image_size: '1280x720',
        image: PICTURE,
        seed: 7,
        negative_prompt: 'rain',
      },
    },
    accepted: { requestId: 'r/1' },
    poll: { method: 'POST', path: '/v1/video/status', body: { requestId: 'r/1' } },
    running: { status: 'InQueue', position: 3 },
    done: { status: 'Succeed', results: { videos: [{ url: FILM }], timings: { inference: 9 }, seed: 7 } },
    failed: { status: 'Failed', reason: 'the prompt is not allowed' },
    code: 'video_failed',
  },
  zhipu: {
    type: 26,
    model: 'cogvideox-3',
    ask: { ...WIDE, fps: 30, duration: 5, images: [PICTURE, LAST], metadata: { quality: 'speed' } },
    submit: {
      method: 'POST',
      path: '/api/paas/v4/videos/generations',
      body: {
        model: 'cogvideox-3',
        prompt: 'p',
        image_url: [PICTURE, LAST],
        size: '1280x720',
        fps: 30,
        duration: 5,
        quality: 'speed',
      },
    },
    accepted: { model: 'cogvideox-3', id: 'z1', request_id: 'q1', task_status: 'PROCESSING' },
    poll: { method: 'GET', path: '/api/paas/v4/async-result/z1' },
    running: { model: 'cogvideox-3', task_status: 'PROCESSING', request_id: 'q1' },
    done: {
      model: 'cogvideox-3',
      task_status: 'SUCCESS',
      video_result: [{ url: FILM, cover_image_url: 'https://cdn.example/cover.png' }],
    },
    failed: { model: 'cogvideox-3', task_status: 'FAIL', error: { code: '1301', message: 'not allowed' } },
    code: '1301',
  },
  together: {
    type: 1002,
    model: 'minimax/hailuo-02',
    ask: {
      width: 1366,
      height: 768,
      duration: 6,
      seed: 7,
      image: INLINE_PICTURE,
      metadata: { negative_prompt: 'rain' },
    },
    submit: {
      method: 'POST',
      path: '/v2/videos',
      body: {
        model: 'minimax/hailuo-02',
        prompt: 'p',
        width: 1366,
        height: 768,
        seconds: '6',
        seed: 7,
        media: { frame_images: [{ input_image: INLINE_PICTURE }] },
        negative_prompt: 'rain',
      },
    },
    accepted: { id: 't1', object: 'video', model: 'minimax/hailuo-02', status: 'in_progress' },
    poll: { method: 'GET', path: '/v2/videos/t1' },
    running: { id: 't1', status: 'in_progress' },
    done: {
      id: 't1',
      status: 'completed',
      size: '1366x768',
      seconds: '6',
      outputs: { cost: 0.28, video_url: FILM },
    },
    failed: { id: 't1', status: 'failed', error: { message: 'blocked', code: 'content_policy' } },
    code: 'content_policy',
  },
}

describe('hosts of video models, by their documentation', () => {
  let relay: VideoRelay
  let replay: Replay
  before(async () => {
    relay = await openVideos('sqlite')
    replay = await startReplay()
  })
  after(async () => {
    replay.close()
    await relay.gateway.close()
  })

  async function submit({ type, model: sentModel, ask }: Shape, price: Json, more: Json = {}) {
    const { model } = await relay.offer(sentModel, price, { type, base_url: replay.url })
    const { id, sdk, submit } = await relay.openFor(model)
    return { id, sdk, reply: await submit({ ...ask, ...more }) }
  }

  const play = ({ submit: { method, path }, accepted, poll }: Shape, looks: readonly Json[]) => {
    let at = 0
    replay.play([
      { method, path, answer: () => ({ body: accepted }) },
      { ...poll, answer: () => ({ body: looks[Math.min(at++, looks.length - 1)] }) },
    ])
  }

  for (const [name, shape] of Object.entries(SHAPES)) {
    it(`${name}: submits in its format, polls the job, returns the video`, async () => {
      play(shape, [shape.running, shape.done])
      const { id, sdk, reply } = await submit(shape, { per_call: 0.5 })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.headers.get('x-sluice-warnings'), null)
      assert.deepEqual(replay.seen[0]?.body, shape.submit.body)
      assert.match(replay.seen[0]?.headers.authorization ?? '', /^Bearer /)
      assert.equal((await relay.untilEnded(sdk, reply.body.id)).status, 'completed')
      if (shape.poll.body) assert.deepEqual(replay.seen.at(-1)?.body, shape.poll.body)
      assert.equal(await (await sdk.videos.downloadContent(reply.body.id)).text(), 'a film')
      assert.equal((await relay.rowOf(id)).cost, 500_000_000)
    })

    it(`${name}: reports why a job failed`, async () => {
      play(shape, [shape.failed])
      const { sdk, reply } = await submit(shape, { per_call: 0.5 })
      const ended = await relay.untilEnded(sdk, reply.body.id)
      assert.equal(ended.status, 'failed')
      assert.equal(ended.error?.code, shape.code)
    })

    it(`${name}: a rejected submission costs nothing`, async () => {
      const { method, path } = shape.submit
      replay.play([{ method, path, answer: () => ({ status: 400, body: { message: 'no such size' } }) }])
      const { id, reply } = await submit(shape, { per_call: 0.5 })
      assert.equal(reply.status, 400, reply.text)
      assert.equal((await relay.rowOf(id)).cost, 0)
    })
  }

  it('a video of unknown length is not sold by the second', async () => {
    const { siliconflow, together } = SHAPES as Record<'siliconflow' | 'together', Shape>
    replay.play([])
    const submissionWithSeconds = await submit(siliconflow, { per_call: 0.5 }, { seconds: 1 })
    assert.equal(submissionWithSeconds.reply.status, 400)
    assert.equal(submissionWithSeconds.reply.body.error.param, 'seconds')
    const unnamed = await submit(together, { per_second: 0.1 }, { duration: undefined })
    assert.equal(unnamed.reply.body.error.param, 'seconds')
    assert.equal(replay.seen.length, 0)
  })

  it('a video is never a page: documents in its place are refused, and images are sent as plain files', async () => {
    const typed = (path: string, type: string) => ({
      method: 'GET',
      path,
      answer: () => ({ type, body: '<script>alert(1)</script>' }),
    })
    const paths = ['/page', '/told', '/drawing', '/film.mp4']
    replay.play([
      {
        method: 'POST',
        path: '/v1/models/owner/film/predictions',
        answer: () => ({ status: 201, body: { id: 'p1', status: 'starting' } }),
      },
      {
        method: 'GET',
        path: '/v1/predictions/p1',
        answer: () => ({
          body: { id: 'p1', status: 'succeeded', output: paths.map(path => `${replay.url}${path}`) },
        }),
      },
      typed('/page', 'text/html; charset=utf-8'),
      typed('/told', 'application/problem+json'),
      typed('/drawing', 'image/svg+xml'),
    ])
    const { model } = await relay.offer('owner/film', { per_call: 0.5 }, { type: 56, base_url: replay.url })
    const { key, sdk } = await relay.open({ unlimited_quota: true })
    const { id } = await sdk.videos.create({ model, prompt: 'p' })
    await relay.untilEnded(sdk, id)
    for (const [address, asking] of [
      [`/v1/videos/${id}/content`, { token: key }],
      [`/api/video/${id}/content`, {}],
    ] as const) {
      const got = await Promise.all(
        paths.map(async (_path, index) => {
          const { status, headers } = await relay.api('GET', `${address}?index=${index}`, undefined, asking)
          return [status, headers.get('content-type'), headers.get('x-content-type-options')]
        }),
      )
      assert.deepEqual(
        got.map(([status]) => status),
        [502, 502, 200, 200],
      )
      assert.deepEqual(got.slice(2), [
        [200, 'application/octet-stream', 'nosniff'],
        [200, 'video/mp4', 'nosniff'],
      ])
    }
  })
})
