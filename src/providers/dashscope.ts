import { bearer } from './auth.ts'
import { baseUrlField } from './fields.ts'
import { memberOf } from './member.ts'
import { openaiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

// Later tool deltas repeat `id: ""`; `enable_thinking` needs a stream on some models; usage in streams must
// be asked for. Jobs (images, videos) want the header `X-DashScope-Async: enable` and are polled at
// /api/v1/tasks/{id}.
export const dashscope = {
  type: 17,
  name: 'Ali (DashScope)',
  baseUrl: 'https://dashscope.aliyuncs.com',
  auth: bearer,
  chat: {
    'openai-chat': '/compatible-mode/v1/chat/completions',
    responses: '/compatible-mode/v1/responses',
    anthropic: '/apps/anthropic/v1/messages',
  },
  completions: { openai: '/compatible-mode/v1/completions' },
  embeddings: { openai: '/compatible-mode/v1/embeddings' },
  speech: { native: '/api/v1/services/aigc/multimodal-generation/generation' },
  rerank: { cohere: '/compatible-api/v1/reranks', native: '/api/v1/services/rerank/text-rerank/text-rerank' },
  images: { native: '/api/v1/services/aigc/multimodal-generation/generation' },
  videos: { native: '/api/v1/services/aigc/video-generation/video-synthesis' },
  models: { path: '/compatible-mode/v1/models', names: openaiModels },
  fields: [baseUrlField('Empty for Beijing; Singapore is https://dashscope-intl.aliyuncs.com')],
  // An account in arrears answers 400.
  isKeyTrouble: (status, body) => status === 400 && codeOf(body) === 'Arrearage',
  keyHint: 'sk-…',
} satisfies Provider

const codeOf = (body: unknown) => memberOf(body, 'code') ?? memberOf(memberOf(body, 'error'), 'code')
