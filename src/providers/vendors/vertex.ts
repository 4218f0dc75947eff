import {
  type EmbeddingAsk,
  type EmbeddingDialect,
  unsupportedFields,
  vectorsIn,
} from '../../media/embedding.ts'
import { keyHeader } from '../auth.ts'
import { googleTokens } from '../google-tokens.ts'
import { memberOf } from '../member.ts'
import type { Provider } from '../provider.ts'
import { vertexVideos } from '../videos/veo.ts'
import { gemini } from './gemini.ts'

const google = '/v1/{+place}publishers/google/models/{model}'
const claude = '/v1/{+place}publishers/anthropic/models/{model}'

// JSON keys must be camelCase. Embeddings use `predict`. Video jobs are polled by POST {model}:fetchPredictOperation. An API
// key without a project belongs to the express mode, whose paths have no project.
export const vertex = {
  type: 41,
  name: 'Vertex AI',
  telemetryName: 'gcp.vertex_ai',
  baseUrl: 'https://{region_prefix}aiplatform.googleapis.com',
  auth: keyHeader('x-goog-api-key'),
  exchange: {
    description: 'service account, exchanged for an OAuth access token',
    takes: key => projectOf(key) !== undefined,
    createTokens: googleTokens,
  },
  chat: {
    gemini: { whole: `${google}:generateContent`, streamed: `${google}:streamGenerateContent?alt=sse` },
    anthropic: { whole: `${claude}:rawPredict`, streamed: `${claude}:streamRawPredict` },
    'openai-chat': '/v1/{+place}endpoints/openapi/chat/completions',
  },
  // The path has the model, and the body has the version that is a header elsewhere.
  bodies: { anthropic: { anthropic_version: 'vertex-2023-10-16', model: undefined } },
  embeddings: { native: `${google}:predict` },
  speech: { gemini: `${google}:generateContent` },
  transcription: { gemini: `${google}:generateContent` },
  translation: { gemini: `${google}:generateContent` },
  images: { gemini: `${google}:generateContent`, native: `${google}:predict` },
  videos: { native: `${google}:predictLongRunning` },
  dialects: {
    embeddings: { native: { encode: encodeEmbedding, decode: decodeEmbedding } },
    speech: gemini.dialects.speech,
    transcription: gemini.dialects.transcription,
    translation: gemini.dialects.translation,
    images: gemini.dialects.images,
    videos: { native: vertexVideos },
  },
  voices: gemini.voices,
  isKeyError: gemini.isKeyError,
  fields: [
    {
      name: 'region',
      label: 'Region',
      help: 'For example us-central1. Leave blank for global.',
      fallback: 'global',
    },
    { name: 'project', label: 'Project', help: 'Leave blank to use the project of the service account.' },
  ],
  placeholders: (key, { region = 'global', project = projectOf(key) }) => ({
    // The global location has no host of its own.
    region_prefix: region === 'global' ? '' : `${region}-`,
    place: project === undefined ? '' : `projects/${project}/locations/${region}/`,
    ...(project === undefined ? {} : { project }),
  }),
  // Each publisher has its own format; names with a slash belong to other publishers.
  formatsOfModel: model => {
    if (model.startsWith('claude')) return ['anthropic']
    if (model.includes('/')) return ['openai-chat']
    return /^(imagen|veo|text-|multimodal|gemini-embedding)/.test(model) ? ['native'] : ['gemini']
  },
  keyHint: 'the JSON key file of a service account, or an API key',
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

/** The newer models accept one text per call. */
function encodeEmbedding(ask: EmbeddingAsk, model: string) {
  const parameters = ask.dimensions === undefined ? {} : { outputDimensionality: ask.dimensions }
  const question = (texts: readonly string[]) => ({
    instances: texts.map(content => ({ content })),
    parameters,
  })
  const warnings = unsupportedFields(ask)
  return model.startsWith('gemini-')
    ? { several: ask.inputs.map(text => question([text])), warnings }
    : { json: question(ask.inputs), warnings }
}

/** The token count of each text is beside its vector. */
function decodeEmbedding(answer: unknown, ask: EmbeddingAsk): ReturnType<EmbeddingDialect['decode']> {
  const answers = Array.isArray(answer) ? answer : [answer]
  const embeddings = answers
    .flatMap(each => memberOf(each, 'predictions'))
    .map(prediction => memberOf(prediction, 'embeddings'))
  const tokens = embeddings.map(each => memberOf(memberOf(each, 'statistics'), 'token_count'))
  const hasCounts = tokens.every(count => Number.isSafeInteger(count) && Number(count) >= 0)
  return {
    vectors: vectorsIn(
      embeddings.map(each => memberOf(each, 'values')),
      ask,
    ),
    ...(hasCounts && { tokens: tokens.reduce<number>((sum, count) => sum + Number(count), 0) }),
  }
}
