import { memberOf } from './member.ts'
import type { Provider } from './provider.ts'
import { vertexVideos } from './videos/veo.ts'

const place = '/v1/projects/{project}/locations/{region}'
const google = `${place}/publishers/google/models/{model}`
const claude = `${place}/publishers/anthropic/models/{model}`

// In the anthropic format the body carries `anthropic_version: "vertex-2023-10-16"` and no model. JSON keys
// must be camelCase. Embeddings go through predict. Video jobs are polled by POST
// {model}:fetchPredictOperation.
export const vertex = {
  type: 41,
  name: 'Vertex AI',
  baseUrl: 'https://{region_prefix}aiplatform.googleapis.com',
  exchange: { scheme: 'google-service-account', takes: key => projectOf(key) !== undefined },
  chat: {
    gemini: { whole: `${google}:generateContent`, streamed: `${google}:streamGenerateContent?alt=sse` },
    anthropic: { whole: `${claude}:rawPredict`, streamed: `${claude}:streamRawPredict` },
    'openai-chat': `${place}/endpoints/openapi/chat/completions`,
  },
  embeddings: { native: `${google}:predict` },
  speech: { gemini: `${google}:generateContent` },
  images: { gemini: `${google}:generateContent`, native: `${google}:predict` },
  videos: { native: `${google}:predictLongRunning` },
  dialects: { videos: { native: vertexVideos } },
  fields: [
    { name: 'region', label: 'Region', help: 'Such as us-central1; empty: global.', fallback: 'global' },
    { name: 'project', label: 'Project', help: 'Empty: the project of the service account.' },
  ],
  placeholders: (key, { region = 'global', project = projectOf(key) }) => ({
    // The global location has no host of its own.
    region_prefix: region === 'global' ? '' : `${region}-`,
    ...(project === undefined ? {} : { project }),
  }),
  // Each publisher is asked in its own format; what is named like a path belongs to the other ones.
  speaks: model => {
    if (model.startsWith('claude')) return ['anthropic']
    if (model.includes('/')) return ['openai-chat']
    return /^(imagen|veo|text-|multimodal|gemini-embedding)/.test(model) ? ['native'] : ['gemini']
  },
  keyHint: 'the JSON key file of a service account',
} satisfies Provider

function projectOf(key: string): string | undefined {
  try {
    const project = memberOf(JSON.parse(key), 'project_id')
    return typeof project === 'string' ? project : undefined
  } catch {
    // No JSON: not a key file.
    return undefined
  }
}
