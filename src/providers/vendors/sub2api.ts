import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

const generate = '/v1beta/models/{model}:generateContent'

/** A gateway for subscriptions: each family of models supports only its own format. */
export const sub2api = {
  type: 59,
  name: 'Sub2API',
  auth: bearer,
  chat: {
    'openai-chat': '/v1/chat/completions',
    responses: '/v1/responses',
    anthropic: '/v1/messages',
    gemini: { whole: generate, streamed: '/v1beta/models/{model}:streamGenerateContent?alt=sse' },
  },
  formatsOfModel: model => {
    if (model.startsWith('claude')) return ['anthropic']
    return model.startsWith('gemini') ? ['gemini'] : ['openai-chat', 'responses']
  },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the other gateway.')],
  keyHint: 'sk-…',
} satisfies Provider
