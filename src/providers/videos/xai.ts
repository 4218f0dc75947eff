import { addressOf } from '../../media/still.ts'
import { ratioOf, resolutionOf, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
import {
  at,
  completedWith,
  failedFor,
  idAt,
  numberAt,
  overlaid,
  type States,
  statusOf,
  textAt,
} from './answer-fields.ts'

const STATES: States = { pending: 'processing', done: 'completed', failed: 'failed', expired: 'failed' }

export const xaiVideos: VideoDialect = {
  mostStills: () => 1,
  async submit(ask, model) {
    const [first] = ask.stills
    return {
      method: 'POST',
      path: '/v1/videos/generations',
      json: overlaid(
        {
          model,
          prompt: ask.prompt,
          duration: ask.seconds,
          resolution: resolutionOf(ask),
          aspect_ratio: ratioOf(ask),
          image: first && { url: await addressOf(first) },
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width']),
    }
  },
  accepted: idAt('request_id'),
  poll: ({ id }) => ({ method: 'GET', path: `/v1/videos/${encodeURIComponent(id)}` }),
  state(answer) {
    const vendorStatus = textAt(answer, 'status')
    const url = textAt(answer, 'video.url')
    // The last response may omit the status.
    const status =
      vendorStatus === undefined && url !== undefined ? 'completed' : statusOf(STATES, vendorStatus)
    if (status === 'failed')
      return failedFor(textAt(answer, 'error.code') ?? vendorStatus, textAt(answer, 'error.message'))
    const progress = numberAt(answer, 'progress')
    if (status !== 'completed')
      return { status, progress: progress !== undefined && progress > 1 ? progress / 100 : progress }
    if (at(answer, 'video.respect_moderation') === false)
      return failedFor('content_filtered', 'The video violates the content rules of the provider.')
    return completedWith({
      results: url === undefined ? [] : [{ url }],
      seconds: textAt(answer, 'video.duration'),
    })
  },
}
