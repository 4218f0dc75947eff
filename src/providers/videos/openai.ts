import { AnswerError } from '../../media/dialect.ts'
import { addressOf } from '../../media/still.ts'
import {
  type Sought,
  sizeText,
  type UpstreamJob,
  unsupportedWarnings,
  type VideoAsk,
  type VideoDialect,
  type VideoState,
} from '../../media/video.ts'
import type { FormPart } from '../../wire/multipart.ts'
import { memberOf } from '../member.ts'

const STATES: Readonly<Record<string, VideoState['status']>> = {
  queued: 'queued',
  pending: 'queued',
  submitted: 'queued',
  in_progress: 'processing',
  processing: 'processing',
  completed: 'completed',
  succeeded: 'completed',
  failed: 'failed',
  cancelled: 'failed',
  canceled: 'failed',
}

/** How far the clock of a vendor may be behind. */
const SKEW_S = 60

const textIn = (value: unknown, name: string) => {
  const member = memberOf(value, name)
  return typeof member === 'string' && member !== '' ? member : undefined
}
const numberIn = (value: unknown, name: string) => {
  const member = memberOf(value, name)
  return typeof member === 'number' && Number.isFinite(member) ? member : undefined
}

const scalars = (fields: Readonly<Record<string, unknown>>): FormPart[] =>
  Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === null
      ? []
      : [{ name, value: typeof value === 'object' ? JSON.stringify(value) : String(value) }],
  )

async function partsOf(ask: VideoAsk, model: string, extra: Readonly<Record<string, unknown>>) {
  const { model: _model, ...metadata } = ask.metadata
  const namedFields = {
    prompt: ask.prompt,
    seconds: ask.seconds === undefined ? undefined : String(ask.seconds),
    size: sizeText(ask),
    ...extra,
    ...metadata,
  }
  const parts: FormPart[] = [{ name: 'model', value: model }, ...scalars(namedFields)]
  for (const still of ask.stills)
    parts.push(
      still.kind === 'file'
        ? { name: 'input_reference', file: still.file }
        : { name: 'input_reference[image_url]', value: await addressOf(still) },
    )
  return parts
}

function stateOf(answer: unknown): VideoState {
  const vendorStatus = textIn(answer, 'status') ?? ''
  const status = STATES[vendorStatus.toLowerCase()] ?? 'processing'
  const error = memberOf(answer, 'error')
  const percent = numberIn(answer, 'progress')
  return {
    status,
    // OpenAI counts to 100; another Sluice counts to 1.
    progress: percent === undefined ? undefined : percent > 1 ? percent / 100 : percent,
    expiresTime: numberIn(answer, 'expires_at'),
    seconds: textIn(answer, 'seconds'),
    size: textIn(answer, 'size'),
    ...(status === 'completed' && { results: [{}] }),
    ...(status === 'failed' && {
      error: {
        code: textIn(error, 'code') ?? 'video_failed',
        message: textIn(error, 'message') ?? 'The provider could not create the video.',
      },
    }),
  }
}

/** Here only the request and its time identify a job. */
function idsOf(answer: unknown, sought: Sought): string[] {
  const listed = memberOf(answer, 'data')
  const size = sizeText(sought)
  return (Array.isArray(listed) ? listed : [])
    .filter(
      job =>
        (numberIn(job, 'created_at') ?? 0) >= sought.sentTime - SKEW_S &&
        textIn(job, 'model') === sought.model &&
        (textIn(job, 'prompt') ?? '') === sought.prompt &&
        (sought.seconds === undefined || textIn(job, 'seconds') === String(sought.seconds)) &&
        (size === undefined || textIn(job, 'size') === size),
    )
    .sort((a, b) => (numberIn(a, 'created_at') ?? 0) - (numberIn(b, 'created_at') ?? 0))
    .flatMap(job => textIn(job, 'id') ?? [])
}

/**
 * The common format of video jobs. `root` is the path of the collection. Servers that accept more fields than OpenAI get
 * them all.
 */
export const openaiVideos = ({ root = '/v1/videos', takesAll = false } = {}): VideoDialect => {
  const at = ({ id }: UpstreamJob) => `${root}/${encodeURIComponent(id)}`
  return {
    secondsOf: model => (/^sora-/.test(model) ? 4 : undefined),
    variants: ['video', 'thumbnail', 'spritesheet'],
    async submit(ask, model) {
      const extra = takesAll ? { fps: ask.fps, seed: ask.seed, user: ask.user } : {}
      return {
        method: 'POST',
        path: root,
        parts: await partsOf(ask, model, extra),
        warnings: unsupportedWarnings(
          ask,
          takesAll ? ['seconds', 'width', 'fps', 'seed', 'user'] : ['seconds', 'width'],
        ),
      }
    },
    accepted(answer) {
      const id = textIn(answer, 'id')
      if (id === undefined) throw new AnswerError('the response has no job id')
      return id
    },
    poll: job => ({ method: 'GET', path: at(job) }),
    state: stateOf,
    find: {
      call: () => ({ method: 'GET', path: root, query: { limit: '100', order: 'desc' } }),
      ids: idsOf,
    },
    source: (job, _result, _ask, variant) => ({
      call: { method: 'GET', path: `${at(job)}/content`, ...(variant && { query: { variant } }) },
    }),
    remove: job => ({ method: 'DELETE', path: at(job) }),
    remix: (job, prompt) => ({ method: 'POST', path: `${at(job)}/remix`, json: { prompt } }),
  }
}
