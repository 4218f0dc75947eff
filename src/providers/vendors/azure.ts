import { keyHeader } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import type { Provider } from '../provider.ts'
import { openaiVideos } from '../videos/openai.ts'
import { openaiPicturesInside, openaiTranscripts, openaiVoices } from './openai.ts'

// The path has the deployment, so the models of a channel are deployment names, and the vendor's list of base models is of
// no use.
const deployment = (call: string) => `/openai/deployments/{model}/${call}?api-version={api_version}`

// Streams open with a chunk without choices; a filtered choice may come without its message.
export const azure = {
  type: 3,
  name: 'Azure',
  telemetryName: 'azure.ai.openai',
  auth: keyHeader('api-key'),
  chat: { 'openai-chat': deployment('chat/completions'), responses: '/openai/v1/responses' },
  takesMaxToolCalls: true,
  completions: { openai: deployment('completions') },
  embeddings: { openai: deployment('embeddings') },
  speech: { openai: deployment('audio/speech') },
  transcription: { openai: deployment('audio/transcriptions') },
  translation: { openai: deployment('audio/translations') },
  images: { openai: deployment('images/generations') },
  videos: { openai: '/openai/v1/videos' },
  dialects: { videos: { openai: openaiVideos({ root: '/openai/v1/videos' }) } },
  voices: openaiVoices,
  // The name is that of the deployment and may not contain the name of the model.
  transcripts: openaiTranscripts,
  picturesInside: openaiPicturesInside,
  fields: [
    baseUrlField('URL of the resource: https://<resource>.openai.azure.com'),
    {
      name: 'api_version',
      label: 'API version',
      help: 'A date such as 2024-10-21. Versions before 2024-09-01-preview report no usage in streams.',
      fallback: '2025-04-01-preview',
    },
  ],
  keyHint: '32 or 84 letters and digits from "Keys and Endpoint"',
} satisfies Provider
