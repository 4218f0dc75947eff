import { addressOf } from '../../media/still.ts'
import {
  ratioOf,
  resolutionOf,
  unsupportedWarnings,
  type VideoAsk,
  type VideoDialect,
} from '../../media/video.ts'
import { completedWith, failedFor, idAt, overlaid, type States, statusOf, textAt } from './answer-fields.ts'

const SECONDS = 5
const root = '/api/v3/contents/generations/tasks'

const STATES: States = {
  queued: 'queued',
  running: 'processing',
  succeeded: 'completed',
  failed: 'failed',
  cancelled: 'failed',
  expired: 'failed',
}

/** One image is the first frame, two are the first and last frame, more are references. */
const roleOf = (index: number, count: number) =>
  count > 2 ? 'reference_image' : index === 0 ? 'first_frame' : 'last_frame'

async function contentOf({ prompt, stills }: VideoAsk) {
  const pictures = await Promise.all(
    stills.map(async (still, index) => ({
      type: 'image_url',
      image_url: { url: await addressOf(still) },
      role: roleOf(index, stills.length),
    })),
  )
  return [...(prompt === undefined ? [] : [{ type: 'text', text: prompt }]), ...pictures]
}

/** Older models read flags in the prompt, which would change the price unnoticed. */
const FLAG = /(?:^|\s)--(duration|dur|frames|resolution|rs)\b/i

/** All strings in a value, at any depth. */
const textsIn = (value: unknown): readonly string[] =>
  typeof value === 'string' ? [value] : Object.values(value ?? {}).flatMap(textsIn)

function flagged({ prompt = '', metadata }: VideoAsk) {
  const [, flag] =
    textsIn([prompt, metadata]).reduce<RegExpExecArray | null>(
      (match, text) => match ?? FLAG.exec(text),
      null,
    ) ?? []
  return flag === undefined
    ? undefined
    : { path: 'prompt', message: `must not have --${flag}; use duration, width and height` }
}

export const seedanceVideos: VideoDialect = {
  secondsOf: () => SECONDS,
  usualModes: { sound: 'on' },
  unfit: flagged,
  submit: async (ask, model) => ({
    method: 'POST',
    path: root,
    json: overlaid(
      {
        model,
        content: await contentOf(ask),
        resolution: resolutionOf(ask),
        ratio: ratioOf(ask),
        duration: ask.seconds,
        seed: ask.seed,
      },
      ask,
    ),
    warnings: unsupportedWarnings(ask, ['seconds', 'width', 'seed']),
  }),
  accepted: idAt('id'),
  poll: ({ id }) => ({ method: 'GET', path: `${root}/${encodeURIComponent(id)}` }),
  state(answer) {
    const vendorStatus = textAt(answer, 'status')
    const status = statusOf(STATES, vendorStatus)
    if (status === 'failed')
      return failedFor(textAt(answer, 'error.code') ?? vendorStatus, textAt(answer, 'error.message'))
    if (status !== 'completed') return { status }
    const url = textAt(answer, 'content.video_url')
    return completedWith({ results: url === undefined ? [] : [{ url }], seconds: textAt(answer, 'duration') })
  },
  remove: ({ id }) => ({ method: 'DELETE', path: `${root}/${encodeURIComponent(id)}` }),
}
