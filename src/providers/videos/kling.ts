import { addressOf, inlineOf, type Still } from '../../media/still.ts'
import {
  ratioOf,
  resolutionOf,
  unsupportedWarnings,
  type VendorRefusal,
  type VideoAsk,
  type VideoDialect,
  type VideoState,
} from '../../media/video.ts'
import {
  completedWith,
  failedFor,
  idAt,
  listAt,
  numberAt,
  overlaid,
  type States,
  statusOf,
  textAt,
  urlsAt,
} from './answer-fields.ts'

const SECONDS = 5

const STATES: States = {
  submitted: 'queued',
  processing: 'processing',
  succeed: 'completed',
  succeeded: 'completed',
  failed: 'failed',
}

/** Code 0 means that the call succeeded, even if the task failed. */
function refused(answer: unknown): VendorRefusal | undefined {
  const code = numberAt(answer, 'code') ?? 0
  if (code === 0) return undefined
  const message = textAt(answer, 'message') ?? `The provider returned code ${code}.`
  const status =
    code >= 1_000 && code <= 1_004
      ? 401
      : code >= 1_100 && code <= 1_103
        ? 402
        : code === 1_302 || code === 1_303
          ? 429
          : code >= 5_000
            ? 500
            : 400
  return { status, code: String(code), message }
}

/** An image is a URL or base64 without a prefix. */
const bare = async (still: Still) => (await inlineOf(still))?.base64 ?? addressOf(still)

async function legacyBody(ask: VideoAsk, model: string, reference: string | undefined) {
  const [first, last] = ask.stills
  return overlaid(
    {
      prompt: ask.prompt,
      duration: ask.seconds === undefined ? undefined : String(ask.seconds),
      aspect_ratio: first ? undefined : ratioOf(ask),
      image: first && (await bare(first)),
      image_tail: last && (await bare(last)),
    },
    ask,
    // A model from the client's metadata would be billed at the price of another, and a name could be that of another job.
    { model_name: model, external_task_id: reference },
  )
}

const legacyPath = (kind: string) => `/v1/videos/${kind === 'image2video' ? kind : 'text2video'}`

function legacyState(answer: unknown): VideoState {
  const status = statusOf(STATES, textAt(answer, 'data.task_status'))
  if (status === 'failed') return failedFor(undefined, textAt(answer, 'data.task_status_msg'))
  if (status !== 'completed') return { status }
  return completedWith({
    results: urlsAt(answer, 'data.task_result.videos', 'url'),
    seconds: textAt(answer, 'data.task_result.videos.0.duration'),
  })
}

const legacy: VideoDialect = {
  secondsOf: () => SECONDS,
  async submit(ask, model, reference) {
    const kind = ask.stills.length > 0 ? 'image2video' : 'text2video'
    return {
      method: 'POST',
      path: legacyPath(kind),
      kind,
      json: await legacyBody(ask, model, reference),
      warnings: unsupportedWarnings(ask, kind === 'text2video' ? ['seconds', 'width'] : ['seconds']),
    }
  },
  refused,
  accepted: idAt('data.task_id'),
  poll: ({ id, kind }) => ({ method: 'GET', path: `${legacyPath(kind)}/${encodeURIComponent(id)}` }),
  state: legacyState,
}

/** Jobs of the older interface have our own id; the newer one has no list. */
const legacyFind: VideoDialect['find'] = {
  call: ({ kind }) => ({ method: 'GET', path: legacyPath(kind), query: { pageNum: '1', pageSize: '100' } }),
  ids: (answer, { reference }) =>
    listAt(answer, 'data')
      .filter(task => textAt(task, 'task_info.external_task_id') === reference)
      .flatMap(task => textAt(task, 'task_id') ?? []),
}

const third: VideoDialect = {
  secondsOf: () => SECONDS,
  async submit(ask) {
    const [first, last] = ask.stills
    const path = first ? '/image-to-video/{model}' : '/text-to-video/{model}'
    const { settings, ...metadata } = ask.metadata
    return {
      method: 'POST',
      path,
      kind: '3',
      json: overlaid(
        {
          prompt: ask.prompt,
          image: first && (await bare(first)),
          image_tail: last && (await bare(last)),
          settings: overlaid(
            { resolution: resolutionOf(ask), aspect_ratio: ratioOf(ask), duration: ask.seconds },
            { metadata: typeof settings === 'object' && settings !== null ? { ...settings } : {} },
          ),
        },
        { metadata },
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width']),
    }
  },
  refused,
  accepted: idAt('data.id'),
  poll: ({ id }) => ({ method: 'GET', path: '/tasks', query: { task_ids: id } }),
  state(answer) {
    const [task] = listAt(answer, 'data')
    if (task === undefined) return failedFor('expired', 'The provider no longer knows the task.')
    const status = statusOf(STATES, textAt(task, 'status'))
    if (status === 'failed') return failedFor(undefined, textAt(task, 'message'))
    if (status !== 'completed') return { status }
    const films = listAt(task, 'outputs').filter(output => textAt(output, 'type') === 'video')
    return completedWith({
      results: films.flatMap(film =>
        textAt(film, 'url') === undefined ? [] : [{ url: textAt(film, 'url') ?? '' }],
      ),
      seconds: textAt(films[0], 'duration'),
    })
  },
}

/** Models of the third generation and later have another interface. A job is polled where it was created. */
const isThird = (model: string) => /^kling-(?:v?[3-9]|1\d)/.test(model)
const of = (model: string) => (isThird(model) ? third : legacy)

export const klingVideos: VideoDialect = {
  mostStills: () => 2,
  secondsOf: () => SECONDS,
  submit: (ask, model, reference) => of(model).submit(ask, model, reference),
  refused,
  accepted: answer => idAt(textAt(answer, 'data.task_id') === undefined ? 'data.id' : 'data.task_id')(answer),
  poll: job => (job.kind === '3' ? third : legacy).poll(job),
  state: (answer, job) => (job.kind === '3' ? third : legacy).state(answer, job),
  find: legacyFind,
}
