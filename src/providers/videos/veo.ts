import { inlineOf } from '../../media/still.ts'
import {
  ratioOf,
  resolutionOf,
  type UpstreamJob,
  unsupportedWarnings,
  type VideoAsk,
  type VideoDialect,
  type VideoState,
} from '../../media/video.ts'
import {
  at,
  completedWith,
  failedFor,
  idAt,
  listAt,
  numberAt,
  onlyPictures,
  overlaid,
  textAt,
  urlsAt,
} from './answer-fields.ts'

const SECONDS = 8
const MOST_AT_VERTEX = 4

async function pictureOf(still: VideoAsk['stills'][number] | undefined) {
  const inline = still && (await inlineOf(still))
  return inline && { bytesBase64Encoded: inline.base64, mimeType: inline.type }
}

async function bodyOf(ask: VideoAsk, more: Readonly<Record<string, unknown>>) {
  const [first, last] = ask.stills
  const { negative_prompt: negativePrompt, ...metadata } = ask.metadata
  const instance = {
    ...(ask.prompt !== undefined && { prompt: ask.prompt }),
    ...(first && { image: await pictureOf(first) }),
    ...(last && { lastFrame: await pictureOf(last) }),
  }
  const parameters = {
    durationSeconds: ask.seconds,
    aspectRatio: ratioOf(ask),
    resolution: resolutionOf(ask),
    negativePrompt,
    seed: ask.seed,
    ...more,
  }
  return { instances: [instance], parameters: overlaid(parameters, { metadata }) }
}

/** The vendor's content filter: filtered videos are missing from the response. */
function filtered(answer: unknown, root: string): VideoState | undefined {
  const reasons = listAt(answer, `${root}.raiMediaFilteredReasons`).filter(each => typeof each === 'string')
  const count = numberAt(answer, `${root}.raiMediaFilteredCount`) ?? 0
  return reasons.length > 0 || count > 0
    ? failedFor('content_filtered', reasons.join('; ') || undefined)
    : undefined
}

function endedBadly(answer: unknown): VideoState | undefined {
  if (at(answer, 'error') === undefined) return undefined
  return failedFor(textAt(answer, 'error.code'), textAt(answer, 'error.message'))
}

const carried = ['seconds', 'width', 'seed'] as const

/** Videos of Google's developer API. Their URLs need the key, and redirect. */
export const geminiVideos: VideoDialect = {
  secondsOf: () => SECONDS,
  usualModes: { sound: 'on' },
  mostStills: () => 2,
  unfit: onlyPictures,
  submit: async ask => ({
    method: 'POST',
    path: '/v1beta/models/{model}:predictLongRunning',
    json: await bodyOf(ask, {}),
    warnings: unsupportedWarnings(ask, carried),
  }),
  accepted: idAt('name'),
  poll: ({ id }) => ({ method: 'GET', path: `/v1beta/${encodeURI(id)}` }),
  state(answer) {
    if (at(answer, 'done') !== true) return { status: 'processing' }
    const root = 'response.generateVideoResponse'
    const results = urlsAt(answer, `${root}.generatedSamples`, 'video.uri')
    const failed = endedBadly(answer) ?? (results.length === 0 ? filtered(answer, root) : undefined)
    return failed ?? completedWith({ results })
  },
  source: (_job, { url = '' }) => ({ url, withKey: true }),
}

const place = '/v1/projects/{project}/locations/{region}/publishers/google/models/{model}'

const lookAgain = ({ id }: UpstreamJob) => ({
  method: 'POST' as const,
  path: `${place}:fetchPredictOperation`,
  json: { operationName: id },
})

/** The same videos on Vertex AI: in a bucket, or inside the response. */
export const vertexVideos: VideoDialect = {
  secondsOf: () => SECONDS,
  most: MOST_AT_VERTEX,
  mostStills: () => 2,
  unfit: onlyPictures,
  submit: async ask => ({
    method: 'POST',
    path: `${place}:predictLongRunning`,
    json: await bodyOf(ask, { sampleCount: ask.n }),
    warnings: unsupportedWarnings(ask, carried),
  }),
  accepted: idAt('name'),
  poll: lookAgain,
  state(answer) {
    if (at(answer, 'done') !== true) return { status: 'processing' }
    const results = listAt(answer, 'response.videos').map((video, index) => {
      const url = textAt(video, 'gcsUri')
      return url === undefined ? { ref: String(index) } : { url }
    })
    const failed = endedBadly(answer) ?? (results.length === 0 ? filtered(answer, 'response') : undefined)
    return failed ?? completedWith({ results })
  },
  async source(job, { url, ref = '0' }, ask) {
    const [, bucket, object] = /^gs:\/\/([^/]+)\/(.+)$/.exec(url ?? '') ?? []
    if (bucket !== undefined && object !== undefined) {
      const path = `${encodeURIComponent(bucket)}/o/${encodeURIComponent(object)}`
      return { url: `https://storage.googleapis.com/storage/v1/b/${path}?alt=media`, withKey: true }
    }
    // Too large to be stored with the job: the operation is read again.
    const video = at(await ask(lookAgain(job)), `response.videos.${ref}`)
    return {
      type: textAt(video, 'mimeType') ?? 'video/mp4',
      base64: textAt(video, 'bytesBase64Encoded') ?? '',
    }
  },
}
