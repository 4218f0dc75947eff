import { addressOf } from '../../media/still.ts'
import { ratioOf, resolutionOf, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
import {
  at,
  completedWith,
  failedFor,
  idAt,
  overlaid,
  type States,
  statusOf,
  textAt,
} from './answer-fields.ts'

const STATES: States = {
  starting: 'queued',
  processing: 'processing',
  succeeded: 'completed',
  failed: 'failed',
  canceled: 'failed',
  aborted: 'failed',
}
/** The vendor deletes results after an hour. */
const LIFE_S = 3_600

export const replicateVideos: VideoDialect = {
  mostStills: () => 2,
  async submit(ask) {
    const [first, last] = ask.stills
    const input = {
      prompt: ask.prompt,
      image: first && (await addressOf(first)),
      last_frame: last && (await addressOf(last)),
      duration: ask.seconds,
      aspect_ratio: ratioOf(ask),
      resolution: resolutionOf(ask),
      fps: ask.fps,
      seed: ask.seed,
    }
    return {
      method: 'POST',
      path: '/v1/models/{+model}/predictions',
      json: { input: overlaid(input, ask) },
      warnings: unsupportedWarnings(ask, ['seconds', 'width', 'seed', 'fps']),
    }
  },
  accepted: idAt('id'),
  poll: ({ id }) => ({ method: 'GET', path: `/v1/predictions/${encodeURIComponent(id)}` }),
  state(answer) {
    const vendorStatus = textAt(answer, 'status')
    const status = statusOf(STATES, vendorStatus)
    if (status === 'failed') return failedFor(vendorStatus, textAt(answer, 'error'))
    if (status !== 'completed') return { status }
    const results = [at(answer, 'output') ?? []]
      .flat()
      .flatMap(url => (typeof url === 'string' ? [{ url }] : []))
    const endedMs = Date.parse(textAt(answer, 'completed_at') ?? '')
    return completedWith({
      results,
      expiresTime: Number.isFinite(endedMs) ? Math.floor(endedMs / 1000) + LIFE_S : undefined,
    })
  },
}
