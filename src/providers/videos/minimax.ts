import { addressOf } from '../../media/still.ts'
import {
  ratioOf,
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

const SECONDS = 6

/** Errors have status 200 and a code. */
const CODES: Readonly<Record<number, number>> = {
  1000: 500,
  1001: 500,
  1002: 429,
  1004: 401,
  1008: 402,
  1013: 500,
  2049: 401,
}

function refused(answer: unknown): VendorRefusal | undefined {
  const code = numberAt(answer, 'base_resp.status_code') ?? 0
  if (code === 0) return undefined
  const message = textAt(answer, 'base_resp.status_msg') ?? `The provider returned code ${code}.`
  return { status: CODES[code] ?? 400, code: String(code), message }
}

const resolutionClass = ({ width, height }: VideoAsk) =>
  width === undefined || height === undefined ? undefined : `${Math.min(width, height)}P`

const FIRST: States = {
  Preparing: 'queued',
  Queueing: 'queued',
  Processing: 'processing',
  Success: 'completed',
  Fail: 'failed',
}

const SECOND: States = {
  queued: 'queued',
  running: 'processing',
  succeeded: 'completed',
  failed: 'failed',
  cancelled: 'failed',
  expired: 'failed',
}

/** The newer models have another request format. */
const isSecond = (model: string) => /^MiniMax-H\d/.test(model)

async function firstBody(ask: VideoAsk, model: string) {
  const [first, last] = ask.stills
  return overlaid(
    {
      model,
      prompt: ask.prompt,
      duration: ask.seconds,
      resolution: resolutionClass(ask),
      first_frame_image: first && (await addressOf(first)),
      last_frame_image: last && (await addressOf(last)),
    },
    ask,
  )
}

async function secondBody(ask: VideoAsk, model: string) {
  const pictures = await Promise.all(
    ask.stills.map(async still => ({ type: 'image_url', image_url: { url: await addressOf(still) } })),
  )
  const words = ask.prompt === undefined ? [] : [{ type: 'text', text: ask.prompt }]
  return overlaid(
    {
      model,
      content: [...words, ...pictures],
      duration: ask.seconds,
      resolution: resolutionClass(ask),
      ratio: ratioOf(ask),
    },
    ask,
  )
}

export const minimaxVideos: VideoDialect = {
  mostStills: model => (isSecond(model) ? undefined : 2),
  secondsOf: () => SECONDS,
  async submit(ask, model) {
    const warnings = unsupportedWarnings(ask, ['seconds', 'width'])
    return isSecond(model)
      ? {
          method: 'POST',
          path: '/v2/video_generation',
          kind: '2',
          json: await secondBody(ask, model),
          warnings,
        }
      : {
          method: 'POST',
          path: '/v1/video_generation',
          kind: '1',
          json: await firstBody(ask, model),
          warnings,
        }
  },
  refused,
  accepted: idAt('task_id'),
  poll: ({ id, kind }) =>
    kind === '2'
      ? { method: 'GET', path: `/v2/query/video_generation/${encodeURIComponent(id)}` }
      : { method: 'GET', path: '/v1/query/video_generation', query: { task_id: id } },
  state(answer, { kind }) {
    if (kind === '2') {
      const status = statusOf(SECOND, textAt(answer, 'task.status'))
      if (status === 'failed')
        return failedFor(
          textAt(answer, 'task.error.code') ?? textAt(answer, 'task.status'),
          textAt(answer, 'task.error.message'),
        )
      if (status !== 'completed') return { status }
      const url = textAt(answer, 'task.content.url')
      return completedWith({
        results: url === undefined ? [] : [{ url }],
        seconds: textAt(answer, 'task.duration'),
      })
    }
    const status = statusOf(FIRST, textAt(answer, 'status'))
    if (status === 'failed') {
      const { code, message } = refused(answer) ?? {}
      return failedFor(code, message)
    }
    if (status !== 'completed') return { status }
    const [width, height] = [numberAt(answer, 'video_width'), numberAt(answer, 'video_height')]
    const ref = textAt(answer, 'file_id')
    return completedWith({
      results: ref === undefined ? [] : [{ ref }],
      size: width && height ? `${width}x${height}` : undefined,
    })
  },
  /** A third call returns the URL of the file, which is different each time. */
  async source(_job, { url, ref = '' }, ask) {
    if (url !== undefined) return { url }
    const file = await ask({ method: 'GET', path: '/v1/files/retrieve', query: { file_id: ref } })
    return { url: textAt(file, 'file.download_url') ?? '' }
  },
}
