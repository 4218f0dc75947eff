import { addressOf } from '../../media/still.ts'
import {
  resolutionOf,
  sizeText,
  unsupportedWarnings,
  type VideoAsk,
  type VideoDialect,
} from '../../media/video.ts'
import { completedWith, failedFor, idAt, overlaid, type States, statusOf, textAt } from './answer-fields.ts'

const SECONDS = 5

const STATES: States = {
  PENDING: 'queued',
  SUSPENDED: 'queued',
  RUNNING: 'processing',
  SUCCEEDED: 'completed',
  FAILED: 'failed',
  CANCELED: 'failed',
  // Expired, or it never existed.
  UNKNOWN: 'failed',
}

async function bodyOf(ask: VideoAsk, model: string) {
  const [first, last] = ask.stills
  const { negative_prompt, ...metadata } = ask.metadata
  const frames = last
    ? { first_frame_url: first && (await addressOf(first)), last_frame_url: await addressOf(last) }
    : { img_url: first && (await addressOf(first)) }
  return {
    model,
    input: overlaid({ prompt: ask.prompt, negative_prompt, ...frames }, { metadata: {} }),
    parameters: overlaid(
      {
        // A video from text has a size; one from an image has the shape of the image and a resolution class.
        ...(first ? { resolution: resolutionOf(ask)?.toUpperCase() } : { size: sizeText(ask, '*') }),
        duration: ask.seconds,
        seed: ask.seed,
      },
      { metadata },
    ),
  }
}

export const dashscopeVideos: VideoDialect = {
  mostStills: () => 2,
  secondsOf: () => SECONDS,
  submit: async (ask, model) => ({
    method: 'POST',
    path: '/api/v1/services/aigc/video-generation/video-synthesis',
    headers: { 'x-dashscope-async': 'enable' },
    json: await bodyOf(ask, model),
    warnings: unsupportedWarnings(ask, ['seconds', 'width', 'seed']),
  }),
  accepted: idAt('output.task_id'),
  poll: ({ id }) => ({ method: 'GET', path: `/api/v1/tasks/${encodeURIComponent(id)}` }),
  state(answer) {
    const taskStatus = textAt(answer, 'output.task_status')
    const status = statusOf(STATES, taskStatus)
    if (status === 'failed')
      return failedFor(
        textAt(answer, 'output.code') ?? taskStatus?.toLowerCase(),
        textAt(answer, 'output.message'),
      )
    if (status !== 'completed') return { status }
    const url = textAt(answer, 'output.video_url')
    return completedWith({
      results: url === undefined ? [] : [{ url }],
      seconds: textAt(answer, 'usage.duration'),
    })
  },
}
