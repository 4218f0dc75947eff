import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { hasRecordings, WITHOUT_RECORDINGS } from '../support/recordings.ts'
import { type Json, type Line, type Replay, startReplay } from '../support/replay.ts'
import { INLINE_PICTURE, openVideos, PICTURE, type VideoRelay, WIDE } from '../support/videos.ts'

const SHAPES = new URL('../../../shared/fixtures/video-shapes/', import.meta.url)

type Case = {
  readonly shape: string
  readonly type: number
  readonly model: string
  readonly key?: string
  /** What the client asks beside `prompt`. */
  readonly ask: Json
  /** Which of the recorded looks ends well, and which badly with what code. */
  readonly good: number
  readonly bad?: readonly [index: number, code: string]
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
    good: 1,
    bad: [2, 'video_failed'],
  },
  {
    shape: 'kling-3',
    type: 50,
    model: 'kling-3.0',
    ask: { duration: 5, ...WIDE },
    good: 1,
    bad: [2, 'video_failed'],
  },
  {
    shape: 'minimax-v1',
    type: 35,
    model: 'MiniMax-Hailuo-02',
    ask: { duration: 6, width: 1366, height: 768, image: PICTURE },
    good: 3,
    bad: [4, '1027'],
  },
  {
    shape: 'wan-dashscope',
    type: 17,
    model: 'wan2.5-t2v-preview',
    ask: { duration: 5, ...WIDE },
    good: 1,
    bad: [2, 'DataInspectionFailed'],
  },
  {
    shape: 'seedance-ark',
    type: 54,
    model: 'doubao-seedance-1-0-pro',
    ask: { duration: 5, ...WIDE, image: PICTURE },
    good: 2,
    bad: [3, 'OutputVideoSensitiveContentDetected'],
  },
  {
    shape: 'luma',
    type: 1017,
    model: 'ray-2',
    basePath: '/dream-machine',
    ask: { duration: 5, ...WIDE, image: PICTURE },
    good: 1,
    bad: [2, 'video_failed'],
  },
  {
    shape: 'runway',
    type: 1016,
    model: 'gen4_turbo',
    ask: { duration: 5, ...WIDE, image: PICTURE },
    good: 3,
    bad: [4, 'SAFETY.INPUT.TEXT'],
  },
  {
    shape: 'vidu',
    type: 52,
    model: 'viduq2',
    ask: { duration: 5, ...WIDE, image: PICTURE, metadata: { movement_amplitude: 'auto' } },
    good: 2,
    bad: [3, 'AuditSubmitIllegal'],
  },
  {
    shape: 'sora',
    type: 55,
    model: 'sora-2',
    ask: { duration: 8, ...WIDE },
    good: 1,
    bad: [2, 'moderation_blocked'],
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

if (!hasRecordings) {
  it('video vendors are asked in their words', t => t.skip(WITHOUT_RECORDINGS))
} else {
  describe('video vendors, against their recordings', () => {
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

    const readShape = (name: string): Json =>
      JSON.parse(readFileSync(new URL(`${name}.json`, SHAPES), 'utf8'))

    async function openFor({
      type,
      model: sent,
      key = 'a-vendor-key-0001',
      basePath = '',
    }: Omit<Case, 'shape' | 'ask' | 'good'>) {
      const channel = { type, key, base_url: `${replay.url}${basePath}` }
      const { model } = await relay.offer(sent, { per_second: 0.01 }, channel)
      return relay.openFor(model)
    }

    for (const given of CASES) {
      it(`${given.shape}: submits in its words, follows the job, gives the film`, async () => {
        const shape = readShape(given.shape)
        let at = 0
        const looks: Json[] = [...shape.poll_responses.slice(0, given.good + 1)]
        const poll = () => looks[Math.min(at++, looks.length - 1)]
        replay.play(given.lines?.(shape, poll) ?? linesOf(shape, poll))
        const { sdk, submit } = await openFor(given)
        const reply = await submit(given.ask)
        assert.equal(reply.status, 200, reply.text)
        const [submitted] = replay.seen
        const told = typeof submitted?.body === 'object' ? { ...submitted.body } : undefined
        if (told) {
          // Our own name for the job, by which it could be found again.
          delete told.external_task_id
          assert.deepEqual(told, shape.submit.body)
        } else
          for (const [name, value] of Object.entries(shape.submit.fields))
            assert.match(submitted?.body, new RegExp(`name="${name}"\r\n\r\n${value}\r\n`))
        for (const [name, value] of Object.entries<string>(shape.submit.headers ?? {}))
          if (name.toLowerCase() !== 'authorization')
            assert.equal(submitted?.headers[name.toLowerCase()], value)
        const ended = await relay.untilEnded(sdk, reply.body.id)
        assert.equal(ended.status, 'completed')
        const film = await (await sdk.videos.downloadContent(reply.body.id)).text()
        assert.match(film, /a film/)
      })

      if (given.bad) {
        const [index, code] = given.bad
        it(`${given.shape}: says why a job failed`, async () => {
          const shape = readShape(given.shape)
          const poll = () => shape.poll_responses[index]
          replay.play(given.lines?.(shape, poll) ?? linesOf(shape, poll))
          const { sdk, submit } = await openFor(given)
          const reply = await submit(given.ask)
          const ended = await relay.untilEnded(sdk, reply.body.id)
          assert.equal(ended.status, 'failed')
          assert.equal(ended.error?.code, code)
        })
      }
    }

    it('kling is shown a token signed with the secret, never the secret', async () => {
      const shape = readShape('kling-legacy')
      replay.play(linesOf(shape, () => shape.poll_responses[1]))
      const { submit } = await openFor({ type: 50, model: 'kling-v2-master', key: 'access-0001|secret-0001' })
      await submit()
      const [, token = ''] = /^Bearer (.+)$/.exec(replay.seen[0]?.headers.authorization ?? '') ?? []
      const [head, claims, signature] = token.split('.')
      const expected = createHmac('sha256', 'secret-0001').update(`${head}.${claims}`).digest('base64url')
      assert.equal(signature, expected)
      assert.equal(JSON.parse(Buffer.from(claims ?? '', 'base64url').toString()).iss, 'access-0001')
    })

    it('a refusal inside a good status is one: the next channel is asked, and nothing is paid', async () => {
      const shape = readShape('minimax-v1')
      replay.play([
        {
          method: 'POST',
          path: '/v1/video_generation',
          answer: () => ({ body: shape.error_responses_http_200[0] }),
        },
      ])
      const { id: tokenId, submit } = await openFor({ type: 35, model: 'MiniMax-Hailuo-02' })
      const reply = await submit()
      assert.equal(reply.status, 429)
      assert.equal(reply.body.error.code, 'upstream_rate_limited')
      assert.equal((await relay.rowOf(tokenId)).cost, 0)
    })

    it('gemini: takes pictures themselves and no addresses; its films are fetched with the key, its headers kept back', async () => {
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
      const { sdk, submit } = await openFor({ type: 24, model: 'veo-3.1-lite-generate-preview' })
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
      assert.equal(reply.headers.get('x-sluice-warnings'), 'fps is not taken by this provider')
      assert.deepEqual(replay.seen[0]?.body, {
        instances: [{ prompt: 'p', image: { bytesBase64Encoded: INLINE_PICTURE, mimeType: 'image/png' } }],
        parameters: { durationSeconds: 4, aspectRatio: '16:9', resolution: '720p', negativePrompt: 'rain' },
      })
      await relay.untilEnded(sdk, reply.body.id)
      const film = await sdk.videos.downloadContent(reply.body.id)
      assert.match(await film.text(), /the film/)
      assert.equal(replay.seen.at(-1)?.headers['x-goog-api-key'], 'a-vendor-key-0001')
    })

    it('fal: a job that ended without a film has failed', async () => {
      const shape = readShape('fal')
      const root = '/fal-ai/kling-video/requests/80e7'
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
        const { sdk, submit } = await openFor({
          type: 1018,
          model: 'fal-ai/kling-video/v2/master/text-to-video',
        })
        const reply = await submit({ duration: 5 })
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await relay.untilEnded(sdk, reply.body.id)).status, status)
      }
    })

    it('replicate and xai follow their jobs', async () => {
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
      for (const [type, sent] of [
        [56, 'owner/film'],
        [48, 'grok-imagine-video'],
      ] as const) {
        const { sdk, submit } = await openFor({ type, model: sent })
        const untimed = await submit()
        assert.equal(untimed.body.error.param, 'seconds')
        const reply = await submit({ seconds: '6' })
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await relay.untilEnded(sdk, reply.body.id)).status, 'completed')
        assert.equal(await (await sdk.videos.downloadContent(reply.body.id)).text(), 'a film')
      }
    })
  })
}
