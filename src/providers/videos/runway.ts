import { addressOf } from '../../media/still.ts'
import { sizeText, type UpstreamJob, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
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
} from './answer-fields.ts'

const SECONDS = 5
/** The minimum polling interval of the vendor. */
const PAUSE_S = 5

const STATES: States = {
  PENDING: 'queued',
  THROTTLED: 'queued',
  RUNNING: 'processing',
  SUCCEEDED: 'completed',
  FAILED: 'failed',
  CANCELLED: 'failed',
}

const look = ({ id }: UpstreamJob) => ({
  method: 'GET' as const,
  path: `/v1/tasks/${encodeURIComponent(id)}`,
})

const urlsIn = (answer: unknown) =>
  listAt(answer, 'output').flatMap(url => (typeof url === 'string' ? [url] : []))

export const runwayVideos: VideoDialect = {
  mostStills: () => 2,
  secondsOf: () => SECONDS,
  pauseS: PAUSE_S,
  async submit(ask, model) {
    const [first, last] = ask.stills
    const images = last
      ? [
          { uri: first && (await addressOf(first)), position: 'first' },
          { uri: await addressOf(last), position: 'last' },
        ]
      : first && (await addressOf(first))
    return {
      method: 'POST',
      path: first ? '/v1/image_to_video' : '/v1/text_to_video',
      json: overlaid(
        {
          model,
          promptText: ask.prompt,
          promptImage: images,
          ratio: sizeText(ask, ':'),
          duration: ask.seconds,
          seed: ask.seed,
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width', 'seed']),
    }
  },
  accepted: idAt('id'),
  poll: look,
  state(answer) {
    const vendorStatus = textAt(answer, 'status')
    const status = statusOf(STATES, vendorStatus)
    if (status === 'failed')
      return failedFor(
        textAt(answer, 'failureCode') ?? vendorStatus?.toLowerCase(),
        textAt(answer, 'failure'),
      )
    if (status !== 'completed') return { status, progress: numberAt(answer, 'progress') }
    return completedWith({ results: urlsIn(answer).map((_url, index) => ({ ref: String(index) })) })
  },
  /** URLs expire after a day; reading the task again returns new ones. */
  source: async (job, { ref = '0' }, ask) => ({ url: urlsIn(await ask(look(job)))[Number(ref)] ?? '' }),
  remove: job => ({ method: 'DELETE', path: look(job).path }),
}
