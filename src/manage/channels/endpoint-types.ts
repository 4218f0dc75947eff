import type { Price } from '../../domain/price.ts'
import { isPerToken, type Rates } from '../../domain/rate.ts'
import { type ModelPurpose, purposeOf } from '../../models/purposes.ts'

/** The endpoint of a kind of model. The first five names are those of existing clients. */
export const ENDPOINTS = {
  openai: { path: '/v1/chat/completions', method: 'POST' },
  embeddings: { path: '/v1/embeddings', method: 'POST' },
  'image-generation': { path: '/v1/images/generations', method: 'POST' },
  'jina-rerank': { path: '/v1/rerank', method: 'POST' },
  'openai-video': { path: '/v1/videos', method: 'POST' },
  'audio-speech': { path: '/v1/audio/speech', method: 'POST' },
  'audio-transcription': { path: '/v1/audio/transcriptions', method: 'POST' },
  moderation: { path: '/v1/moderations', method: 'POST' },
} as const satisfies Record<string, { path: string; method: string }>

type EndpointType = keyof typeof ENDPOINTS

type Sign = (rates: Rates) => boolean

const isCharged = (rates: Rates, name: keyof Rates) => rates[name] !== undefined
const isInputOnly = (rates: Rates) => isCharged(rates, 'input') && !isCharged(rates, 'output')

/** A second of audio costs a fraction of a cent, a second of video costs cents. */
const PICOS_PER_CENT = 10_000_000_000
const isSound = ({ per_second, per_minute }: Rates) =>
  per_minute !== undefined || (per_second !== undefined && per_second < PICOS_PER_CENT)

const BY_PURPOSE = {
  rerank: 'jina-rerank',
  moderation: 'moderation',
  speech: 'audio-speech',
  transcription: 'audio-transcription',
  image: 'image-generation',
  embeddings: 'embeddings',
} as const satisfies Record<ModelPurpose, EndpointType>

/** The purpose of a model by the units of its price, if its name does not show it. The first match wins. */
const BY_PRICE: readonly (readonly [EndpointType, Sign])[] = [
  ['audio-speech', rates => isCharged(rates, 'per_character')],
  ['audio-transcription', isSound],
  ['image-generation', rates => isCharged(rates, 'image')],
  ['jina-rerank', rates => isCharged(rates, 'per_search') && !isPerToken(rates)],
  ['openai-video', rates => isCharged(rates, 'per_second') && !isPerToken(rates)],
  ['embeddings', isInputOnly],
]

export function endpointTypes(model: string, price: Price | undefined): EndpointType[] {
  const purpose = purposeOf(model)
  if (purpose !== undefined) return [BY_PURPOSE[purpose]]
  const [type = 'openai'] = BY_PRICE.find(([, sign]) => sign(price?.rates ?? {})) ?? []
  return [type]
}
