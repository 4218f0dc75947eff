import { bearer } from './auth.ts'
import { baseUrlField } from './fields.ts'
import { memberOf } from './member.ts'
import { openaiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

// Speech is hexadecimal text inside JSON. Video jobs are polled at /v1/query/video_generation?task_id=, and a
// third call, /v1/files/retrieve?file_id=, tells the file's address.
export const minimax = {
  type: 35,
  name: 'MiniMax',
  baseUrl: 'https://api.minimax.chat',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/anthropic/v1/messages' },
  speech: { native: '/v1/t2a_v2' },
  images: { native: '/v1/image_generation' },
  videos: { native: '/v1/video_generation' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('Empty for China; elsewhere https://api.minimax.io')],
  // Failures come with status 200 and a code: no right, no balance, a wrong key.
  isKeyTrouble: (_, body) =>
    [1004, 1008, 2049].some(code => memberOf(memberOf(body, 'base_resp'), 'status_code') === code),
  keyHint: 'eyJ… or sk-…',
} satisfies Provider
