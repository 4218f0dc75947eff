import { addressOf } from '../../media/still.ts'
import { sizeText, unsupportedWarnings, type VideoAsk, type VideoDialect } from '../../media/video.ts'
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

const STATES: States = {
  InQueue: 'queued',
  InProgress: 'processing',
  Succeed: 'completed',
  Failed: 'failed',
}

/** The vendor requires one of three sizes. */
const SIZE = '1280x720'

/** A price per second would charge the requested length, but all videos have the same length. */
const oneLength = ({ seconds }: VideoAsk) =>
  seconds === undefined
    ? undefined
    : { path: 'seconds', message: 'must be absent: this provider creates videos of one length' }

export const siliconflowVideos: VideoDialect = {
  mostStills: () => 1,
  unfit: oneLength,
  async submit(ask, model) {
    const [first] = ask.stills
    return {
      method: 'POST',
      path: '/v1/video/submit',
      json: overlaid(
        {
          model,
          prompt: ask.prompt,
          image_size: sizeText(ask) ?? SIZE,
          image: first && (await addressOf(first)),
          seed: ask.seed,
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['width', 'seed']),
    }
  },
  accepted: idAt('requestId'),
  poll: ({ id }) => ({ method: 'POST', path: '/v1/video/status', json: { requestId: id } }),
  state(answer) {
    const status = statusOf(STATES, textAt(answer, 'status'))
    if (status === 'failed') return failedFor(undefined, textAt(answer, 'reason'))
    if (status !== 'completed') return { status }
    return completedWith({ results: urlsAt(answer, 'results.videos', 'url') })
  },
}
