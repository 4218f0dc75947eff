import type { ImageDialect } from '../../media/image.ts'
import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import { readPictures } from '../pictures.ts'
import type { Provider } from '../provider.ts'
import { seedanceVideos } from '../videos/seedance.ts'

const fields = [baseUrlField('Leave blank for China; elsewhere https://ark.ap-southeast.bytepluses.com')]

// The name of a model may be the id of an endpoint (ep-…). Video jobs are polled at their path with /{id}.
export const volcengine = {
  type: 45,
  name: 'VolcEngine',
  baseUrl: 'https://ark.cn-beijing.volces.com',
  auth: bearer,
  chat: {
    'openai-chat': '/api/v3/chat/completions',
    responses: '/api/v3/responses',
    anthropic: '/api/compatible/v1/messages',
  },
  limitsAnswerOnly: true,
  embeddings: { openai: '/api/v3/embeddings' },
  images: { openai: '/api/v3/images/generations' },
  videos: { native: '/api/v3/contents/generations/tasks' },
  dialects: {
    videos: { native: seedanceVideos },
    images: { openai: { encode: encodeImages, decode: readPictures } },
  },
  models: { path: '/api/v3/models', names: openaiModels },
  fields,
  keyHint: 'the API key of the Ark console',
} satisfies Provider

/** Only the video jobs of the same vendor: New API has a separate type number for them. */
export const doubaoVideo = {
  type: 54,
  name: 'DoubaoVideo',
  baseUrl: 'https://ark.cn-beijing.volces.com',
  auth: bearer,
  videos: { native: '/api/v3/contents/generations/tasks' },
  dialects: { videos: { native: seedanceVideos } },
  fields,
  keyHint: 'the API key of the Ark console',
} satisfies Provider

/** One image per request: a sequence of this vendor is a story, not several variants. */
function encodeImages(ask: Parameters<ImageDialect['encode']>[0], model: string) {
  const { n, quality, size, ...body } = ask.body
  const question = { ...body, model, ...(ask.size && ask.size !== 'auto' && { size: ask.size }) }
  return {
    several: Array.from({ length: ask.n }, () => question),
    warnings: quality === undefined ? [] : ['quality is not supported'],
  }
}
