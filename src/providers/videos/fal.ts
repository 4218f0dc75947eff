import { addressOf } from '../../media/still.ts'
import {
  ratioOf,
  resolutionOf,
  type UpstreamJob,
  unsupportedWarnings,
  type VideoDialect,
} from '../../media/video.ts'
import { completedWith, idAt, overlaid, type States, statusOf, textAt } from './answer-fields.ts'

const STATES: States = {
  IN_QUEUE: 'queued',
  IN_PROGRESS: 'processing',
  COMPLETED: 'completed',
  CANCELED: 'failed',
}

/** Requests belong to an application: the first two segments of a model's name. */
const at = ({ id, model }: UpstreamJob) => {
  const app = model.split('/').slice(0, 2).map(encodeURIComponent).join('/')
  return `/${app}/requests/${encodeURIComponent(id)}`
}

export const falVideos: VideoDialect = {
  mostStills: () => 2,
  async submit(ask) {
    const [first, last] = ask.stills
    return {
      method: 'POST',
      path: '/{+model}',
      json: overlaid(
        {
          prompt: ask.prompt,
          image_url: first && (await addressOf(first)),
          tail_image_url: last && (await addressOf(last)),
          duration: ask.seconds === undefined ? undefined : String(ask.seconds),
          aspect_ratio: ratioOf(ask),
          resolution: resolutionOf(ask),
          seed: ask.seed,
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width', 'seed']),
    }
  },
  accepted: idAt('request_id'),
  poll: job => ({ method: 'GET', path: `${at(job)}/status` }),
  state(answer) {
    const status = statusOf(STATES, textAt(answer, 'status'))
    return {
      status,
      ...(status === 'failed' && { error: { code: 'canceled', message: 'The job was canceled.' } }),
    }
  },
  /** A failed job is `COMPLETED` too, and its result is an error. */
  finish: {
    call: job => ({ method: 'GET', path: at(job) }),
    state(answer) {
      const url = textAt(answer, 'video.url') ?? textAt(answer, 'videos.0.url')
      return completedWith({ results: url === undefined ? [] : [{ url }] })
    },
  },
}
