import { bearer } from '../auth.ts'
import { namesAt } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

const account = '/client/v4/accounts/{account_id}/ai'
const run = `${account}/run/{+model}`

export const cloudflare = {
  type: 39,
  name: 'Cloudflare',
  baseUrl: 'https://api.cloudflare.com',
  auth: bearer,
  chat: { 'openai-chat': `${account}/v1/chat/completions` },
  embeddings: { openai: `${account}/v1/embeddings` },
  speech: { native: run },
  transcription: { native: run },
  rerank: { native: run },
  images: { native: run },
  models: { path: `${account}/models/search?per_page=1000`, names: namesAt('result', 'name') },
  fields: [
    {
      name: 'account_id',
      label: 'Account ID',
      help: '32 hexadecimal digits, shown in the URL of the dashboard.',
      required: true,
    },
  ],
  keyHint: 'an API token with the permission "Workers AI: Read"',
} satisfies Provider
