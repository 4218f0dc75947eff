import { authorization } from './auth.ts'
import { allOf, namesAt } from './model-lists.ts'
import type { Provider } from './provider.ts'

// The voice is part of the model's name; audio to transcribe is the bare body, or `{url}`.
export const deepgram = {
  type: 1014,
  name: 'Deepgram',
  baseUrl: 'https://api.deepgram.com',
  auth: authorization('Token'),
  speech: { native: '/v1/speak?model={model}' },
  transcription: { native: '/v1/listen?model={model}' },
  models: {
    path: '/v1/models',
    names: allOf(namesAt('stt', 'canonical_name'), namesAt('tts', 'canonical_name')),
  },
  keyHint: '40 hexadecimal digits',
} satisfies Provider
