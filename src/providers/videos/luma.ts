import { addressOf } from '../../media/still.ts'
import { ratioOf, resolutionOf, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
import {
  completedWith,
  failedFor,
  idAt,
  onlyAddresses,
  overlaid,
  type States,
  statusOf,
  textAt,
} from './answer-fields.ts'

const SECONDS = 5

const STATES: States = { queued: 'queued', dreaming: 'processing', completed: 'completed', failed: 'failed' }

export const lumaVideos: VideoDialect = {
  mostStills: () => 2,
  secondsOf: () => SECONDS,
  unfit: onlyAddresses,
  async submit(ask, model) {
    const frames = await Promise.all(
      ask.stills.slice(0, 2).map(async (still, index) => {
        return [`frame${index}`, { type: 'image', url: await addressOf(still) }] as const
      }),
    )
    return {
      method: 'POST',
      path: '/v1/generations/video',
      json: overlaid(
        {
          model,
          prompt: ask.prompt,
          duration: ask.seconds === undefined ? undefined : `${ask.seconds}s`,
          resolution: resolutionOf(ask),
          aspect_ratio: ratioOf(ask),
          keyframes: frames.length > 0 ? Object.fromEntries(frames) : undefined,
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width']),
    }
  },
  accepted: idAt('id'),
  poll: ({ id }) => ({ method: 'GET', path: `/v1/generations/${encodeURIComponent(id)}` }),
  state(answer) {
    const status = statusOf(STATES, textAt(answer, 'state'))
    if (status === 'failed') return failedFor(undefined, textAt(answer, 'failure_reason'))
    if (status !== 'completed') return { status }
    const url = textAt(answer, 'assets.video')
    return completedWith({ results: url === undefined ? [] : [{ url }] })
  },
  remove: ({ id }) => ({ method: 'DELETE', path: `/v1/generations/${encodeURIComponent(id)}` }),
}
