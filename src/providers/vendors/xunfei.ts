import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'

// New API has no address for this type number; this is the vendor's HTTP service in the common format.
export const xunfei = {
  type: 18,
  name: 'Xunfei',
  baseUrl: 'https://spark-api-open.xf-yun.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  keyHint: 'the APIPassword of the model, or APIKey:APISecret',
} satisfies Provider
