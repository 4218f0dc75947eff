import { addressOf } from '../../media/still.ts'
import { ratioOf, resolutionOf, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
import {
  completedWith,
  failedFor,
  idAt,
  overlaid,
  type States,
  statusOf,
  textAt,
  urlsAt,
} from './answer-fields.ts'

const SECONDS = 5

const STATES: States = {
  created: 'queued',
  queueing: 'queued',
  processing: 'processing',
  success: 'completed',
  failed: 'failed',
}

/** By the number of images. */
const PATHS = ['/ent/v2/text2video', '/ent/v2/img2video', '/ent/v2/start-end2video'] as const

export const viduVideos: VideoDialect = {
  secondsOf: () => SECONDS,
  submit: async (ask, model) => ({
    method: 'POST',
    path: PATHS[ask.stills.length] ?? '/ent/v2/reference2video',
    json: overlaid(
      {
        model,
        prompt: ask.prompt,
        images: ask.stills.length > 0 ? await Promise.all(ask.stills.map(addressOf)) : undefined,
        duration: ask.seconds,
        resolution: resolutionOf(ask),
        aspect_ratio: ask.stills.length > 0 ? undefined : ratioOf(ask),
        seed: ask.seed,
      },
      ask,
    ),
    warnings: unsupportedWarnings(ask, ['seconds', 'width', 'seed']),
  }),
  accepted: idAt('task_id'),
  poll: ({ id }) => ({ method: 'GET', path: `/ent/v2/tasks/${encodeURIComponent(id)}/creations` }),
  state(answer) {
    const status = statusOf(STATES, textAt(answer, 'state'))
    if (status === 'failed') return failedFor(textAt(answer, 'err_code'), undefined)
    if (status !== 'completed') return { status }
    return completedWith({ results: urlsAt(answer, 'creations', 'url') })
  },
}
