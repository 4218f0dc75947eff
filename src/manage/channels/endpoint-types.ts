import type { Price } from '../../domain/price.ts'
import { isPerToken, type Rates } from '../../domain/rate.ts'

/** Where a kind of model is asked; the first five names are those that clients of this family know. */
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

export type EndpointType = keyof typeof ENDPOINTS

type Sign = (model: string, rates: Rates) => boolean

const isCharged = (rates: Rates, name: keyof Rates) => rates[name] !== undefined
const isInputOnly = (rates: Rates) => isCharged(rates, 'input') && !isCharged(rates, 'output')

/** A second of sound costs a small part of a cent, a second of video costs cents. */
const PICOS_PER_CENT = 10_000_000_000
const isSound = ({ per_second, per_minute }: Rates) =>
  per_minute !== undefined || (per_second !== undefined && per_second < PICOS_PER_CENT)

/** What a model is for, by the way it is charged, and where that does not tell, by the words its makers put in names. */
const SIGNS: readonly (readonly [EndpointType, Sign])[] = [
  ['jina-rerank', model => /rerank/i.test(model)],
  ['moderation', model => /moderation/i.test(model)],
  ['audio-speech', (model, rates) => isCharged(rates, 'per_character') || /\btts\b/i.test(model)],
  ['audio-transcription', (model, rates) => isSound(rates) || /whisper|transcri/i.test(model)],
  ['image-generation', (model, rates) => isCharged(rates, 'image') || /\bimage\b/i.test(model)],
  ['jina-rerank', (_model, rates) => isCharged(rates, 'per_search') && !isPerToken(rates)],
  ['openai-video', (_model, rates) => isCharged(rates, 'per_second') && !isPerToken(rates)],
  ['embeddings', (model, rates) => isInputOnly(rates) || /\bembed/i.test(model)],
]

export function endpointTypes(model: string, price: Price | undefined): EndpointType[] {
  const found = SIGNS.find(([, sign]) => sign(model, price?.rates ?? {}))
  return [found?.[0] ?? 'openai']
}
