import { TRANSCRIPT_FORMATS, type TranscriptFormat } from '../../media/transcript.ts'
import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { openaiVideos } from '../videos/openai.ts'

const fields = [
  {
    name: 'openai_organization',
    label: 'Organization',
    help: 'Only for keys that belong to several organizations: org-…',
    header: 'openai-organization',
  },
  {
    name: 'openai_project',
    label: 'Project',
    help: 'Only for keys that belong to several projects: proj_…',
    header: 'openai-project',
  },
]

/** Not every model has more than the six common voices; the vendor rejects the others itself. */
export const openaiVoices = {
  names: [
    'alloy',
    'ash',
    'ballad',
    'cedar',
    'coral',
    'echo',
    'fable',
    'marin',
    'nova',
    'onyx',
    'sage',
    'shimmer',
    'verse',
  ],
}

/** Only its first model supports other formats than JSON. */
export const openaiTranscripts = (model: string): readonly TranscriptFormat[] =>
  /^gpt-/.test(model) ? ['json'] : TRANSCRIPT_FORMATS

export const openaiPicturesInside = (model: string) => /^(chat)?gpt-image/.test(model)

export const openai = {
  type: 1,
  name: 'OpenAI',
  baseUrl: 'https://api.openai.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses' },
  takesMaxToolCalls: true,
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  moderation: { openai: '/v1/moderations' },
  // OpenAI has no reranking, but channels of this type are also used for compatible servers that have.
  rerank: { cohere: '/v1/rerank' },
  images: { openai: '/v1/images/generations' },
  videos: { openai: '/v1/videos' },
  voices: openaiVoices,
  transcripts: openaiTranscripts,
  picturesInside: openaiPicturesInside,
  dialects: { videos: { openai: openaiVideos() } },
  models: { path: '/v1/models', names: openaiModels },
  fields,
  keyHint: 'sk-…',
} satisfies Provider

/** Only the video jobs of the same vendor: New API has a separate type number for them. */
export const sora = {
  type: 55,
  name: 'Sora',
  baseUrl: 'https://api.openai.com',
  auth: bearer,
  videos: { openai: '/v1/videos' },
  dialects: { videos: { openai: openaiVideos() } },
  fields,
  keyHint: 'sk-…',
} satisfies Provider
