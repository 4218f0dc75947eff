import { inlineOf, type Still } from '../../media/still.ts'
import {
  ratioOf,
  type UpstreamJob,
  unsupportedWarnings,
  type VendorRefusal,
  type VideoAsk,
  type VideoDialect,
} from '../../media/video.ts'
import {
  completedWith,
  failedFor,
  idAt,
  numberAt,
  overlaid,
  type States,
  statusOf,
  textAt,
} from './answer-fields.ts'

const VERSION = 'Version=2022-08-31'
export const SUBMIT = `/?Action=CVSync2AsyncSubmitTask&${VERSION}`
const LOOK = `/?Action=CVSync2AsyncGetResult&${VERSION}`

const SECONDS = 5
const FRAMES_PER_SECOND = 24
const GOOD = 10_000
/** Rate limits: concurrency, or requests per second. */
const BUSY = new Set([50_429, 50_430])
const BROKEN = new Set([50_500, 50_501])

const STATES: States = {
  in_queue: 'queued',
  generating: 'processing',
  done: 'completed',
  not_found: 'failed',
  expired: 'failed',
}

const messageOf = (answer: unknown) => textAt(answer, 'message')

function refused(answer: unknown): VendorRefusal | undefined {
  const code = numberAt(answer, 'code') ?? GOOD
  if (code === GOOD) return undefined
  const status = BUSY.has(code) ? 429 : BROKEN.has(code) ? 500 : 400
  return { status, code: String(code), message: messageOf(answer) ?? `The provider returned code ${code}.` }
}

/** URLs and base64 images have two fields, and the vendor reads only one of them. */
function mixed({ stills }: VideoAsk) {
  const kinds = new Set(stills.map(({ kind }) => (kind === 'url' ? 'address' : 'picture')))
  return kinds.size > 1 ? { path: 'image', message: 'must be all URLs or all base64 images' } : undefined
}

async function picturesOf(stills: readonly Still[]): Promise<Readonly<Record<string, unknown>>> {
  const urls = stills.flatMap(still => (still.kind === 'url' ? [still.url] : []))
  if (urls.length > 0) return { image_urls: urls }
  const inline = await Promise.all(stills.map(inlineOf))
  return inline.length === 0 ? {} : { binary_data_base64: inline.map(each => each?.base64) }
}

/** Video jobs of Volcengine's visual service. */
export const jimengVideos: VideoDialect = {
  secondsOf: () => SECONDS,
  unfit: mixed,
  submit: async (ask, model) => ({
    method: 'POST',
    path: SUBMIT,
    json: overlaid(
      {
        prompt: ask.prompt,
        ...(await picturesOf(ask.stills)),
        frames: ask.seconds === undefined ? undefined : Math.round(ask.seconds * FRAMES_PER_SECOND) + 1,
        aspect_ratio: ask.stills.length > 0 ? undefined : ratioOf(ask),
        seed: ask.seed,
      },
      ask,
      { req_key: model },
    ),
    warnings: unsupportedWarnings(
      ask,
      ask.stills.length > 0 ? ['seconds', 'seed'] : ['seconds', 'width', 'seed'],
    ),
  }),
  refused,
  accepted: idAt('data.task_id'),
  poll: ({ id, model }: UpstreamJob) => ({
    method: 'POST',
    path: LOOK,
    json: { req_key: model, task_id: id },
  }),
  state(answer) {
    const code = numberAt(answer, 'code') ?? GOOD
    // A rate limit or a passing error while polling does not fail the job.
    if (BUSY.has(code) || BROKEN.has(code)) return { status: 'processing' }
    if (code !== GOOD) return failedFor(String(code), messageOf(answer))
    const taskStatus = textAt(answer, 'data.status')
    const status = statusOf(STATES, taskStatus)
    if (status === 'failed') return failedFor(taskStatus, messageOf(answer))
    if (status !== 'completed') return { status }
    const url = textAt(answer, 'data.video_url')
    return completedWith({ results: url === undefined ? [] : [{ url }] })
  },
}
