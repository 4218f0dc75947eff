import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { NO_CHANNEL } from '../../src/domain/rejection.ts'
import { oneEngine, type Reply } from '../support/gateway.ts'
import { soundForm, wavOf } from '../support/media.ts'
import { openVideos, type VideoRelay } from '../support/videos.ts'

type Fields = Readonly<Record<string, unknown>>
/** Fields added to a valid request, or replacing a part of it. */
type Bad = readonly [fields: Fields, param: string, code?: 'missing_parameter']

/**
 * Every documented value and range of an operation (docs/reference/relay-api.md: Speech), and the values just
 * outside.
 */
type Table = {
  readonly path: string
  readonly sent: string
  readonly price: Fields
  /** A valid request. */
  readonly base: Fields
  readonly isForm?: boolean
  readonly good: readonly Fields[]
  readonly bad: readonly Bad[]
}

const each = <Value>(name: string, values: readonly Value[]) => values.map(value => ({ [name]: value }))
/** A required field: rejected if absent, null or empty (docs/reference/relay-api.md: Request bodies). */
const needed = (...names: readonly string[]): Bad[] =>
  names.flatMap(name =>
    [undefined, null, ''].map((value): Bad => [{ [name]: value }, name, 'missing_parameter']),
  )
const wrong = (name: string, values: readonly unknown[], param = name): Bad[] =>
  values.map((value): Bad => [{ [name]: value }, param])

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='
const FORMATS = ['json', 'text', 'srt', 'verbose_json', 'vtt']
const PER_SECOND = { per_second: 0.0001 }
const verbose = (granularities: unknown) => ({
  response_format: 'verbose_json',
  'timestamp_granularities[]': granularities,
})

const soundTable = (path: string): Table => ({
  path,
  sent: 'whisper-1',
  price: PER_SECOND,
  isForm: true,
  base: { file: wavOf(1) },
  good: [
    {},
    ...each(
      'file',
      ['flac', 'mp3', 'mp4', 'mpeg', 'mpga', 'm4a', 'ogg', 'wav', 'webm'].map(kind => wavOf(1, `a.${kind}`)),
    ),
    { prompt: 'Ada Lovelace' },
    ...each('response_format', FORMATS),
    ...each('temperature', ['0', '0.5', '1', '1.0', '1e-1', '']),
  ],
  bad: [
    [{ file: undefined }, 'file', 'missing_parameter'],
    [{ file: 'not a file' }, 'file', 'missing_parameter'],
    ...wrong('file', [
      new File([], 'a.wav'),
      wavOf(1, 'a.txt'),
      wavOf(1, 'speech'),
      wavOf(1, 'a.aiff'),
      new File(['words, no sound '.repeat(99)], 'a.mp3'),
    ]),
    [{ model: undefined }, 'model', 'missing_parameter'],
    [{ model: '' }, 'model', 'missing_parameter'],
    ...wrong('response_format', ['xml', 'JSON', 'mp3', '', ['json', 'text']]),
    ...wrong('temperature', ['-0.01', '1.01', '2', '-1', 'warm', 'NaN', 'Infinity', ['0', '1']]),
    ...wrong('prompt', [['one', 'two']]),
  ],
})

const TABLES: Readonly<Record<string, Table>> = {
  'creating a video (4.6)': {
    path: '/v1/videos',
    sent: 'sim-video',
    price: { per_call: 0.001 },
    base: { prompt: 'A calm lake' },
    good: [
      {},
      { image: 'https://example.com/first.png' },
      { image: PNG },
      { image: `data:image/png;base64,${PNG}` },
      ...each('duration', [4, 0.5, 3_600]),
      { width: 1280, height: 720 },
      { width: 1280 },
      { height: 720 },
      ...each('fps', [1, 24, 240]),
      ...each('n', [1, 2]),
      ...each('seed', [0, 7, -7]),
      ...each('response_format', ['url', 'b64_json']),
      { metadata: { negative_prompt: 'rain', style: 'noir', quality_level: 'high' } },
      ...each('metadata', [{}, null]),
      { user: 'somebody' },
      { of_another_vendor: true },
    ],
    bad: [
      [{ model: null }, 'model', 'missing_parameter'],
      [{ model: '' }, 'model', 'missing_parameter'],
      ...wrong('model', [5, ['sora-2']]),
      ...wrong('prompt', [5, ['a'], { text: 'a' }, 'x'.repeat(32_001)]),
      ...wrong('image', [5, 'no picture!', 'ftp://example.com/a.png', 'file:///etc/passwd', { file: 'a' }]),
      ...wrong('duration', [0, -1, 3_601, 'long', true, [4]]),
      ...wrong('width', [0, -1, 12.5, 8_193, 'wide', true]),
      ...wrong('height', [0, -1, 12.5, 8_193, 'tall', true]),
      ...wrong('fps', [0, -1, 23.976, 241, 'fast']),
      ...wrong('n', [0, -1, 1.5, 11, 'many', true]),
      ...wrong('seed', [1.5, 'lucky', 2 ** 60, true]),
      ...wrong('response_format', [5, ['url']]),
      ...wrong('metadata', ['style', ['noir'], 5, true]),
      ...wrong('user', [5, ['somebody'], 'u'.repeat(129)]),
    ],
  },
  'creating a video by a form (4.6)': {
    path: '/v1/videos',
    sent: 'sim-video',
    price: { per_call: 0.001 },
    base: { prompt: 'A calm lake' },
    isForm: true,
    good: [
      {},
      { image: PNG },
      { image: new File([Buffer.from(PNG, 'base64')], 'first.png', { type: 'image/png' }) },
      { duration: '5', width: '1280', height: '720', fps: '24', n: '1', seed: '-3', user: 'somebody' },
      { duration: '', width: '', height: '', fps: '', n: '', seed: '', metadata: '', image: '' },
      { metadata: '{"style":"noir"}' },
      { 'metadata[style]': 'noir', 'metadata[quality_level]': '2' },
      { response_format: 'url' },
    ],
    bad: [
      [{ model: undefined }, 'model', 'missing_parameter'],
      ...wrong('duration', ['0', '-1', '3601', 'long', ['4', '5']]),
      ...wrong('width', ['0', '12.5', 'wide']),
      ...wrong('fps', ['0', '23.976', 'fast']),
      ...wrong('n', ['0', '1.5', '11', 'many']),
      ...wrong('seed', ['1.5', 'lucky']),
      ...wrong('metadata', ['style', '["noir"]', '5', '{']),
      ...wrong('image', ['no picture!', new File([], 'first.png')]),
    ],
  },
  'speech (4.8)': {
    path: '/v1/audio/speech',
    sent: 'tts-1',
    price: { per_character: 0.000001 },
    base: { input: 'Hello', voice: 'alloy' },
    good: [
      {},
      ...each('input', ['a', 'x'.repeat(4_096), '語'.repeat(4_096), '👋'.repeat(4_096)]),
      ...each('voice', ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer']),
      ...each('response_format', ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm', null]),
      ...each('speed', [0.25, 0.3, 1, 4, 4.0, null]),
    ],
    bad: [
      ...needed('model', 'input', 'voice'),
      ...wrong('model', [5, ['tts-1']]),
      ...wrong('input', [5, ['Hello'], { text: 'Hello' }, 'x'.repeat(4_097), '👋'.repeat(4_097)]),
      ...wrong('voice', [5, 'Alloy', 'nobody', ['alloy']]),
      ...wrong('response_format', ['MP3', 'midi', 'ogg', '', 5, ['mp3']]),
      ...wrong('speed', [0.24, 0, -1, 4.01, 5, '1', true, [1]]),
    ],
  },
  'transcription (4.9)': (({ good, bad, ...table }) => ({
    ...table,
    good: [
      ...good,
      ...each('language', ['en', 'de', 'zh', '']),
      verbose(['word']),
      verbose(['segment']),
      verbose(['word', 'segment']),
      { response_format: 'verbose_json', timestamp_granularities: '["word"]' },
      { response_format: 'verbose_json', 'timestamp_granularities[0]': 'segment' },
    ],
    bad: [
      ...bad,
      ...wrong('language', ['english', 'xx', 'e', 'en-US', '12', ['en', 'de']]),
      [verbose(['page']), 'timestamp_granularities'],
      [verbose(['word', 'page']), 'timestamp_granularities'],
      ...[undefined, 'json', 'text', 'srt', 'vtt'].map((response_format): Bad => {
        return [{ response_format, 'timestamp_granularities[]': 'word' }, 'timestamp_granularities']
      }),
    ],
  }))(soundTable('/v1/audio/transcriptions')),
  'translation (4.10)': soundTable('/v1/audio/translations'),
  'moderation (4.11)': {
    path: '/v1/moderations',
    sent: 'text-moderation-latest',
    price: { input: 0 },
    base: { input: 'all is well' },
    good: [{}, { input: ['all', 'is', 'well'] }, { input: [{ type: 'text', text: 'all is well' }] }],
    bad: [
      ...needed('input'),
      ...wrong('input', [5, true, { text: 'a' }, [], Array(2_049).fill('a')]),
      [{ input: ['a', 5] }, 'input.1'],
      [{ input: [5] }, 'input.0'],
      [{ input: [['a']] }, 'input.0'],
      ...wrong('model', [5, ['text-moderation-latest']]),
    ],
  },
  'rerank (4.12)': {
    path: '/v1/rerank',
    sent: 'bge-reranker-v2-m3',
    price: { input: 1 },
    base: { query: 'capital of France', documents: ['Berlin', 'Paris, the capital of France'] },
    good: [
      {},
      { documents: ['only one'] },
      { documents: [{ text: 'Berlin' }, { text: 'Paris', page: 2 }] },
      { documents: ['Berlin', { text: 'Paris' }] },
      { documents: Array(1_000).fill('a') },
      ...each('top_n', [1, 2, 99, null]),
      ...each('return_documents', [true, false, null]),
    ],
    bad: [
      ...needed('model', 'query', 'documents'),
      ...wrong('model', [5, ['bge']]),
      ...wrong('query', [5, ['a'], { text: 'a' }]),
      ...wrong('documents', ['one', 5, { text: 'a' }, [], Array(1_001).fill('a')]),
      [{ documents: ['a', 5] }, 'documents.1'],
      [{ documents: [{ title: 'Berlin' }] }, 'documents.0'],
      [{ documents: ['a', { text: 5 }] }, 'documents.1'],
      [{ documents: [null] }, 'documents.0'],
      ...wrong('top_n', [0, -1, 1.5, '1', true]),
      ...wrong('return_documents', ['yes', 1, 'true', []]),
    ],
  },
}

for (const engine of oneEngine('postgres'))
  describe(`the documented ranges of requests on ${engine}`, () => {
    let relay: VideoRelay
    before(async () => {
      relay = await openVideos(engine)
    })
    after(() => relay.gateway.close())

    const formOf = (fields: Fields): FormData => {
      const { file, ...texts } = fields
      const form = soundForm({}, file instanceof File ? file : undefined)
      const formFields = file instanceof File ? texts : fields
      for (const [name, value] of Object.entries(formFields))
        for (const one of [value].flat()) if (one !== undefined) form.append(name, one as string | File)
      return form
    }

    const ask = (
      { path, isForm }: Table,
      key: string,
      body: Fields,
    ): Promise<Pick<Reply, 'status' | 'text' | 'body'>> =>
      isForm ? relay.post(path, key, formOf(body)) : relay.api('POST', path, body, { token: key })

    /** How many requests the provider received at a path; polls of running jobs use another path. */
    async function askedFor(path: string): Promise<number> {
      const report = (await (await fetch(`${relay.upstream}/sim/requests`)).json()) as {
        counts: { path: string; requests: number }[]
      }
      return report.counts
        .filter(count => count.path === path)
        .reduce((sum, { requests }) => sum + requests, 0)
    }

    const labelOf = (fields: Fields) =>
      JSON.stringify(fields, (_name, value) => (value instanceof File ? value.name : value)).slice(0, 90)

    const balanceOf = async (id: number) => {
      const { used_quota, held_quota } = await relay.must(relay.gateway.api('GET', `/api/token/${id}`))
      return { used_quota, held_quota }
    }

    it('one video is made by default, and it is available until it expires (section 8)', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.01 })
      const { id: tokenId, key, sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake that dries up' })
      assert.equal(await relay.usedBy(tokenId), 5_000)
      const { expires_at } = await relay.untilEnded(sdk, id)
      assert.equal((await sdk.videos.downloadContent(id)).status, 200)
      assert.ok((expires_at ?? 0) * 1000 > Date.now())
      const expires_time = Math.floor(Date.now() / 1000)
      await relay.gateway.db.updateTable('videos').set({ expires_time }).where('id', '=', id).execute()
      const late = await relay.api('GET', `/v1/videos/${id}/content`, undefined, { token: key })
      assert.deepEqual([late.status, late.body.error.code], [410, 'video_expired'])
    })

    it('a verbose transcript has its language, duration, words and segments, from every provider (2.8)', async () => {
      for (const sentModel of ['whisper-1', 'gpt-4o-transcribe']) {
        const { model } = await relay.offer(sentModel, PER_SECOND)
        const { key } = await relay.open()
        for (const path of ['/v1/audio/transcriptions', '/v1/audio/translations']) {
          const fields = { model, file: wavOf(2), response_format: 'verbose_json' }
          const { status, body, text } = await relay.post(path, key, formOf(fields))
          assert.equal(status, 200, text)
          assert.equal(typeof body.text, 'string')
          assert.equal(typeof body.language, 'string')
          assert.equal(body.duration, 2)
          assert.ok(Array.isArray(body.words) && body.segments.length > 0, `${sentModel} ${path}`)
        }
      }
    })

    for (const [name, table] of Object.entries(TABLES)) {
      it(`${name}: allowed values are sent to the provider`, async () => {
        const { model } = await relay.offer(table.sent, table.price)
        const { key } = await relay.open({ unlimited_quota: true })
        for (const fields of table.good) {
          const requestsBefore = await askedFor(table.path)
          const { status, text } = await ask(table, key, { model, ...table.base, ...fields })
          assert.equal(status, 200, `${labelOf(fields)}: ${text.slice(0, 300)}`)
          assert.ok((await askedFor(table.path)) > requestsBefore, labelOf(fields))
        }
      })

      it(`${name}: other values are rejected with the field name, and nothing is sent, held or charged`, async () => {
        const { model } = await relay.offer(table.sent, table.price)
        const { id, key } = await relay.open()
        const requestsBefore = await askedFor(table.path)
        for (const [fields, param, code = 'invalid_parameter'] of table.bad) {
          const { status, body } = await ask(table, key, { model, ...table.base, ...fields })
          const { error } = body
          assert.deepEqual(
            [status, error?.type, error?.param, error?.code],
            [400, 'invalid_request_error', param, code],
            labelOf(fields),
          )
          assert.ok(error.message.length > 0)
        }
        assert.equal(await askedFor(table.path), requestsBefore)
        assert.deepEqual(await balanceOf(id), { used_quota: 0, held_quota: 0 })
        const rows = await relay.gateway.db
          .selectFrom('logs')
          .where('token_id', '=', id)
          .where('channel_id', '<>', NO_CHANNEL)
          .selectAll()
          .execute()
        assert.deepEqual(rows, [])
        const jobs = await relay.gateway.db
          .selectFrom('videos')
          .where('token_id', '=', id)
          .select('id')
          .execute()
        assert.deepEqual(jobs, [])
      })
    }
  })
