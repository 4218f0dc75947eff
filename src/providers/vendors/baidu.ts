import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const baiduV2 = {
  type: 46,
  name: 'Baidu V2',
  baseUrl: 'https://qianfan.baidubce.com',
  // Keys imported from New API may have the application id after a bar.
  auth: key => bearer(splitKey(key).token),
  chat: { 'openai-chat': '/v2/chat/completions' },
  embeddings: { openai: '/v2/embeddings' },
  rerank: { cohere: '/v2/rerank' },
  images: { openai: '/v2/images/generations' },
  models: { path: '/v2/models', names: openaiModels },
  fields: [
    {
      name: 'appid',
      label: 'App ID',
      help: 'Only to attribute usage to one application: app-…',
      header: 'appid',
    },
  ],
  placeholders: key => splitKey(key).fields,
  keyHint: 'bce-v3/ALTAK-…',
} satisfies Provider

function splitKey(key: string): { token: string; fields: Record<string, string> } {
  const [token = '', appid = ''] = key.split('|')
  return { token, fields: appid === '' ? {} : { appid } }
}
