import { inlineOf, type Still } from '../../media/still.ts'
import { sizeText, unsupportedWarnings, type VideoDialect } from '../../media/video.ts'
import { completedWith, failedFor, idAt, overlaid, type States, statusOf, textAt } from './answer-fields.ts'

const STATES: States = { in_progress: 'processing', completed: 'completed', failed: 'failed' }

/** A URL, or base64 without a prefix. The number of images decides their position in the video. */
const frameOf = async (still: Still) => ({
  input_image: still.kind === 'url' ? still.url : (await inlineOf(still))?.base64,
})

export const togetherVideos: VideoDialect = {
  async submit(ask, model) {
    const frames = await Promise.all(ask.stills.map(frameOf))
    return {
      method: 'POST',
      path: '/v2/videos',
      json: overlaid(
        {
          model,
          prompt: ask.prompt,
          ...(sizeText(ask) && { width: ask.width, height: ask.height }),
          seconds: ask.seconds === undefined ? undefined : String(ask.seconds),
          fps: ask.fps,
          seed: ask.seed,
          media: frames.length > 0 ? { frame_images: frames } : undefined,
        },
        ask,
      ),
      warnings: unsupportedWarnings(ask, ['seconds', 'width', 'fps', 'seed']),
    }
  },
  accepted: idAt('id'),
  poll: ({ id }) => ({ method: 'GET', path: `/v2/videos/${encodeURIComponent(id)}` }),
  state(answer) {
    const status = statusOf(STATES, textAt(answer, 'status'))
    if (status === 'failed') return failedFor(textAt(answer, 'error.code'), textAt(answer, 'error.message'))
    if (status !== 'completed') return { status }
    const url = textAt(answer, 'outputs.video_url')
    return completedWith({
      results: url === undefined ? [] : [{ url }],
      seconds: textAt(answer, 'seconds'),
      size: textAt(answer, 'size'),
    })
  },
}
