import { keyHeader } from './auth.ts'
import { namesAt } from './model-lists.ts'
import type { Provider } from './provider.ts'

// The sound's format is the query `output_format`, such as mp3_44100_128; of the words of a transcript, those
// of type `spacing` are no words.
export const elevenlabs = {
  type: 1013,
  name: 'ElevenLabs',
  baseUrl: 'https://api.elevenlabs.io',
  auth: keyHeader('xi-api-key'),
  speech: { native: { whole: '/v1/text-to-speech/{voice}', streamed: '/v1/text-to-speech/{voice}/stream' } },
  transcription: { native: '/v1/speech-to-text' },
  models: { path: '/v1/models', names: namesAt(undefined, 'model_id') },
  keyHint: 'sk_…',
} satisfies Provider
