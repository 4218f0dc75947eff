import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { law } from '../support/laws.ts'
import { hasRecordings, WITHOUT_RECORDINGS } from '../support/recordings.ts'
import { type Json, type Line, type Replay, startReplay } from '../support/replay.ts'
import { INLINE_PICTURE, openVideos, PICTURE, type VideoRelay, WIDE } from '../support/videos.ts'

/** The jobs of a vendor: the corpus has a poll of each while running, after success and after failure. */
const CORPUS = new URL('../corpus/videos/', import.meta.url)
const RECORDINGS = new URL('../../../shared/fixtures/video-shapes/', import.meta.url)

type Case = {
  readonly shape: string
  readonly type: number
  readonly model: string
  readonly key?: string
  /** What the client sends beside `prompt`. */
  readonly ask: Json
  /** The error code of a failed job. */
  readonly code: string
  /** Which of the recorded polls succeeds, and which fails. */
  readonly recorded: { readonly good: number; readonly bad: number }
  readonly basePath?: string
  lines?(shape: Json, poll: () => Json): readonly Line[]
}

const CASES: readonly Case[] = [
  {
    shape: 'kling-legacy',
    type: 50,
    model: 'kling-v2-master',
    key: 'access-0001|secret-0001',
    ask: { duration: 5, ...WIDE, metadata: { mode: 'std' } },
    code: 'video_failed',
    recorded: { good: 1, bad: 2 },
  },
  {
    shape: 'kling-3',
    type: 50,
    model: 'kling-3.0',
    ask: { duration: 5, ...WIDE },
    code: 'video_failed',
    recorded: { good: 1, bad: 2 },
  },
  {
    shape: 'minimax-v1',
    type: 35,
    model: 'MiniMax-Hailuo-02',
    ask: { duration: 6, width: 1366, height: 768, image: PICTURE },
    code: '1027',
    recorded: { good: 3, bad: 4 },
  },
  {
    shape: 'wan-dashscope',
    type: 17,
    model: 'wan2.5-t2v-preview',
    ask: { duration: 5, ...WIDE },
    code: 'DataInspectionFailed',
    recorded: { good: 1, bad: 2 },
  },
  {
    shape: 'seedance-ark',
    type: 54,
    model: 'doubao-seedance-1-0-pro',
    ask: { duration: 5, ...WIDE, image: PICTURE },
    code: 'OutputVideoSensitiveContentDetected',
    recorded: { good: 2, bad: 3 },
  },
  {
    shape: 'luma',
    type: 1017,
    model: 'ray-2',
    basePath: '/dream-machine',
    ask: { duration: 5, ...WIDE, image: PICTURE },
    code: 'video_failed',
    recorded: { good: 1, bad: 2 },
  },
  {
    shape: 'runway',
    type: 1016,
    model: 'gen4_turbo',
    ask: { duration: 5, ...WIDE, image: PICTURE },
    code: 'SAFETY.INPUT.TEXT',
    recorded: { good: 3, bad: 4 },
  },
  {
    shape: 'vidu',
    type: 52,
    model: 'viduq2',
    ask: { duration: 5, ...WIDE, image: PICTURE, metadata: { movement_amplitude: 'auto' } },
    code: 'AuditSubmitIllegal',
    recorded: { good: 2, bad: 3 },
  },
  {
    shape: 'sora',
    type: 55,
    model: 'sora-2',
    ask: { duration: 8, ...WIDE },
    code: 'moderation_blocked',
    recorded: { good: 1, bad: 2 },
    lines: ({ submit_response }, poll) => [
      { method: 'POST', path: '/v1/videos', answer: () => ({ body: submit_response }) },
      {
        method: 'GET',
        path: '/v1/videos/video_1',
        answer: () => ({ body: { ...poll(), expires_at: null } }),
      },
      {
        method: 'GET',
        path: '/v1/videos/video_1/content',
        answer: () => ({ type: 'video/mp4', body: 'a film' }),
      },
    ],
  },
]

const queryOf = (query: Record<string, string> | undefined) => (query ? `?${new URLSearchParams(query)}` : '')

/** The calls that a recording describes. */
const linesOf = (shape: Json, poll: () => Json): readonly Line[] => [
  { method: shape.submit.method, path: shape.submit.path, answer: () => ({ body: shape.submit_response }) },
  {
    method: shape.poll.method,
    path: `${shape.poll.path}${queryOf(shape.poll.query)}`,
    answer: () => ({ body: poll() }),
  },
  ...(shape.retrieve
    ? [
        {
          method: 'GET',
          path: `${shape.retrieve.path}${queryOf(shape.retrieve.query)}`,
          answer: () => ({ body: shape.retrieve.response }),
        },
      ]
    : []),
]

/** A shape of the corpus, or a recorded one: the expected request, and its response. */
type Shape = {
  readonly name: string
  readonly json: Json
  readonly good: number
  readonly bad: number
}

const readJson = (folder: URL, name: string): Json =>
  JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'))

const ownShape = (name: string): Json => readJson(CORPUS, name)

const shapesOf = ({ shape, recorded }: Case): readonly Shape[] => [
  { name: `corpus/videos/${shape}`, json: ownShape(shape), good: 1, bad: 2 },
  ...(hasRecordings
    ? [{ name: `video-shapes/${shape}`, json: readJson(RECORDINGS, shape), ...recorded }]
    : []),
]

/**
 * Every test has its own vendor: most of their time is the interval between two polls, in which they run
 * concurrently.
 */
async function withVendor(body: (replay: Replay) => Promise<void>): Promise<void> {
  const replay = await startReplay()
  try {
    await body(replay)
  } finally {
    replay.close()
  }
}

if (!hasRecordings) it('recorded shapes of video vendors', t => t.skip(WITHOUT_RECORDINGS))

describe('video vendors', { concurrency: true }, () => {
  let relay: VideoRelay
  before(async () => {
    relay = await openVideos('sqlite')
  })
  after(() => relay.gateway.close())

  async function openFor(
    replay: Replay,
    {
      type,
      model: sentModel,
      key = 'a-vendor-key-0001',
      basePath = '',
    }: Pick<Case, 'type' | 'model' | 'key' | 'basePath'>,
  ) {
    const channel = { type, key, base_url: `${replay.url}${basePath}` }
    const { model } = await relay.offer(sentModel, { per_second: 0.01 }, channel)
    return relay.openFor(model)
  }

  for (const each of CASES) {
    for (const { name, json: shape, good, bad } of shapesOf(each)) {
      law(`${name}: submits in its format, polls the job, returns the video`, { transcript: name }, () =>
        withVendor(async replay => {
          let at = 0
          const looks: Json[] = [...shape.poll_responses.slice(0, good + 1)]
          const poll = () => looks[Math.min(at++, looks.length - 1)]
          replay.play(each.lines?.(shape, poll) ?? linesOf(shape, poll))
          const { sdk, submit } = await openFor(replay, each)
          const reply = await submit(each.ask)
          assert.equal(reply.status, 200, reply.text)
          assertSubmitted(replay, shape)
          const ended = await relay.untilEnded(sdk, reply.body.id)
          assert.equal(ended.status, 'completed')
          const film = await (await sdk.videos.downloadContent(reply.body.id)).text()
          assert.match(film, /a film/)
        }),
      )

      law(`${name}: reports why a job failed`, { transcript: name }, () =>
        withVendor(async replay => {
          const poll = () => shape.poll_responses[bad]
          replay.play(each.lines?.(shape, poll) ?? linesOf(shape, poll))
          const { sdk, submit } = await openFor(replay, each)
          const reply = await submit(each.ask)
          const ended = await relay.untilEnded(sdk, reply.body.id)
          assert.equal(ended.status, 'failed')
          assert.equal(ended.error?.code, each.code)
        }),
      )
    }
  }

  it('kling is sent a token signed with the secret, never the secret', () =>
    withVendor(async replay => {
      const shape = ownShape('kling-legacy')
      replay.play(linesOf(shape, () => shape.poll_responses[1]))
      const { submit } = await openFor(replay, {
        type: 50,
        model: 'kling-v2-master',
        key: 'access-0001|secret-0001',
      })
      await submit()
      const [, token = ''] = /^Bearer (.+)$/.exec(replay.seen[0]?.headers.authorization ?? '') ?? []
      const [head, claims, signature] = token.split('.')
      const expected = createHmac('sha256', 'secret-0001').update(`${head}.${claims}`).digest('base64url')
      assert.equal(signature, expected)
      assert.equal(JSON.parse(Buffer.from(claims ?? '', 'base64url').toString()).iss, 'access-0001')
    }))

  it('images beyond those that a vendor accepts are not dropped, unless the client accepts that', () =>
    withVendor(async replay => {
      const shape = ownShape('kling-legacy')
      const lines = linesOf(shape, () => shape.poll_responses[1])
      replay.play([
        ...lines,
        { method: 'POST', path: '/v1/videos/image2video', answer: () => ({ body: shape.submit_response }) },
      ])
      const { submit } = await openFor(replay, {
        type: 50,
        model: 'kling-v2-master',
        key: 'access-1|secret-1',
      })
      const images = [PICTURE, PICTURE, PICTURE]
      for (const headers of [{}, { 'x-sluice-strict': 'true' }]) {
        const { status, body } = await submit({ duration: 5, images }, headers)
        assert.deepEqual([status, body.error.code, body.error.param], [400, 'unsupported_content', 'images'])
      }
      assert.equal(replay.seen.length, 0)
      const lossy = await submit({ duration: 5, images }, { 'x-sluice-strict': 'false' })
      assert.equal(lossy.status, 200, lossy.text)
      assert.match(lossy.headers.get('x-sluice-warnings') ?? '', /^images: more than 2 images cannot be sent/)
      const { image, image_tail } = replay.seen[0]?.body ?? {}
      assert.deepEqual([image, image_tail], [PICTURE, PICTURE])
    }))

  it('a rejection with a success status is one: the gateway fails over, and nothing is charged', () =>
    withVendor(async replay => {
      const shape = ownShape('minimax-v1')
      replay.play([
        {
          method: 'POST',
          path: '/v1/video_generation',
          answer: () => ({ body: shape.error_responses_http_200[0] }),
        },
      ])
      const { id: tokenId, submit } = await openFor(replay, { type: 35, model: 'MiniMax-Hailuo-02' })
      const reply = await submit()
      assert.equal(reply.status, 429)
      assert.equal(reply.body.error.code, 'upstream_rate_limited')
      assert.equal((await relay.rowOf(tokenId)).cost, 0)
    }))

  it('gemini: accepts inline images and no URLs; its videos are downloaded with the key, its headers are not forwarded', () =>
    withVendor(async replay => {
      const name = 'models/veo-3.1-lite-generate-preview/operations/umz7sqimep69'
      const done = {
        name,
        done: true,
        response: {
          generateVideoResponse: {
            generatedSamples: [{ video: { uri: `${replay.url}/v1beta/files/f:download?alt=media` } }],
          },
        },
      }
      replay.play([
        {
          method: 'POST',
          path: '/v1beta/models/veo-3.1-lite-generate-preview:predictLongRunning',
          answer: () => ({ body: { name } }),
        },
        { method: 'GET', path: `/v1beta/${name}`, answer: () => ({ body: done }) },
        {
          method: 'GET',
          path: '/v1beta/files/f:download?alt=media',
          answer: () => ({ type: 'video/mp4', body: 'the film' }),
        },
      ])
      const { sdk, submit } = await openFor(replay, { type: 24, model: 'veo-3.1-lite-generate-preview' })
      const refused = await submit({ image: PICTURE })
      assert.equal(refused.status, 400)
      assert.equal(refused.body.error.param, 'image')
      assert.equal(replay.seen.length, 0)
      const reply = await submit({
        duration: 4,
        ...WIDE,
        fps: 30,
        image: INLINE_PICTURE,
        metadata: { negative_prompt: 'rain' },
      })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.headers.get('x-sluice-warnings'), 'fps is not supported by this provider')
      assert.deepEqual(replay.seen[0]?.body, {
        instances: [{ prompt: 'p', image: { bytesBase64Encoded: INLINE_PICTURE, mimeType: 'image/png' } }],
        parameters: { durationSeconds: 4, aspectRatio: '16:9', resolution: '720p', negativePrompt: 'rain' },
      })
      await relay.untilEnded(sdk, reply.body.id)
      const film = await sdk.videos.downloadContent(reply.body.id)
      assert.match(await film.text(), /the film/)
      assert.equal(replay.seen.at(-1)?.headers['x-goog-api-key'], 'a-vendor-key-0001')
    }))

  it('fal: a job that ended without a video has failed', () =>
    withVendor(async replay => {
      const shape = ownShape('fal')
      const root = `/fal-ai/kling-video/requests/${shape.submit_response.request_id}`
      for (const [result, status] of [
        [{ body: shape.result_response }, 'completed'],
        [shape.result_failed, 'failed'],
      ] as const) {
        replay.play([
          {
            method: 'POST',
            path: '/fal-ai/kling-video/v2/master/text-to-video',
            answer: () => ({ body: shape.submit_response }),
          },
          { method: 'GET', path: `${root}/status`, answer: () => ({ body: shape.status_responses[2] }) },
          { method: 'GET', path: root, answer: () => result },
        ])
        const { sdk, submit } = await openFor(replay, {
          type: 1018,
          model: 'fal-ai/kling-video/v2/master/text-to-video',
        })
        const reply = await submit({ duration: 5 })
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await relay.untilEnded(sdk, reply.body.id)).status, status)
      }
    }))

  it('replicate and xai poll their jobs', () =>
    withVendor(async replay => {
      const film = `${replay.url}/film.mp4`
      replay.play([
        {
          method: 'POST',
          path: '/v1/models/owner/film/predictions',
          answer: () => ({ status: 201, body: { id: 'p1', status: 'starting' } }),
        },
        {
          method: 'GET',
          path: '/v1/predictions/p1',
          answer: () => ({ body: { id: 'p1', status: 'succeeded', output: [film] } }),
        },
        { method: 'POST', path: '/v1/videos/generations', answer: () => ({ body: { request_id: 'x1' } }) },
        {
          method: 'GET',
          path: '/v1/videos/x1',
          answer: () => ({
            body: { status: 'done', video: { url: film, respect_moderation: true, duration: 6 } },
          }),
        },
      ])
      for (const [type, sentModel] of [
        [56, 'owner/film'],
        [48, 'grok-imagine-video'],
      ] as const) {
        const { sdk, submit } = await openFor(replay, { type, model: sentModel })
        const untimed = await submit()
        assert.equal(untimed.body.error.param, 'seconds')
        const reply = await submit({ seconds: '6' })
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await relay.untilEnded(sdk, reply.body.id)).status, 'completed')
        assert.equal(await (await sdk.videos.downloadContent(reply.body.id)).text(), 'a film')
      }
    }))
})

/** The sent request equals the shape, except for the job's own name, by which it can be found again. */
function assertSubmitted(replay: Replay, { submit }: Json): void {
  const [submitted] = replay.seen
  if (typeof submitted?.body === 'object') {
    const { external_task_id: _, ...body } = submitted.body
    assert.deepEqual(body, submit.body)
  } else
    for (const [name, value] of Object.entries(submit.fields))
      assert.match(submitted?.body, new RegExp(`name="${name}"\r\n\r\n${value}\r\n`))
  for (const [name, value] of Object.entries<string>(submit.headers ?? {}))
    if (name.toLowerCase() !== 'authorization') assert.equal(submitted?.headers[name.toLowerCase()], value)
}
