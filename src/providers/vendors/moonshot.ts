import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Older streams have `usage` inside the first choice; the maximum temperature is 1.
export const moonshot = {
  type: 25,
  name: 'Moonshot',
  telemetryName: 'moonshot_ai',
  baseUrl: 'https://api.moonshot.cn',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/anthropic/v1/messages' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('Leave blank for China; elsewhere https://api.moonshot.ai')],
  keyHint: 'sk-…',
} satisfies Provider
