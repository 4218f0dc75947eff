import { addressOf } from '../../media/still.ts'
import { sizeText, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
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

const STATES: States = { PROCESSING: 'processing', SUCCESS: 'completed', FAIL: 'failed' }

export const zhipuVideos: VideoDialect = {
  secondsOf: () => SECONDS,
  async submit(ask, model) {
    const pictures = await Promise.all(ask.stills.map(addressOf))
    return {
      method: 'POST',
      path: '/api/paas/v4/videos/generations',
      json: overlaid(
        {
          model,
          prompt: ask.prompt,
          // One image is the first frame, two are the first and last frame; older models accept no list.
          image_url: pictures.length > 1 ? pictures : pictures[0],
          size: sizeText(ask),
          fps: ask.fps,
          duration: ask.seconds,
          user_id: ask.user,
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width', 'fps', 'user']),
    }
  },
  accepted: idAt('id'),
  poll: ({ id }) => ({ method: 'GET', path: `/api/paas/v4/async-result/${encodeURIComponent(id)}` }),
  state(answer) {
    const status = statusOf(STATES, textAt(answer, 'task_status'))
    if (status === 'failed') return failedFor(textAt(answer, 'error.code'), textAt(answer, 'error.message'))
    if (status !== 'completed') return { status }
    return completedWith({ results: urlsAt(answer, 'video_result', 'url') })
  },
}
