import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const submodel = {
  type: 53,
  name: 'Submodel',
  baseUrl: 'https://llm.submodel.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'the access key of the console',
} satisfies Provider
