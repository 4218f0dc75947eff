import { OUTBOUND } from '../chat/index.ts'
import { type DialectOf, type FormatName, OPERATIONS, type Operation, type Provider } from './provider.ts'

/** Formats that the gateway supports for every vendor, by operation. */
const COMMON: Readonly<Record<Operation, readonly string[]>> = {
  chat: OUTBOUND.map(({ name }) => name),
  completions: ['openai'],
  embeddings: ['openai'],
  speech: ['openai'],
  transcription: ['openai'],
  translation: ['openai'],
  moderation: ['openai'],
  rerank: ['cohere'],
  images: ['openai'],
  videos: [],
}

/** The formats that the gateway uses for an operation of a vendor, preferred first. A path alone is not enough: the format must be supported. */
export function supportedFormats(provider: Provider, operation: Operation): FormatName[] {
  const dialects = provider.dialects?.[operation as keyof DialectOf]
  const isSupported = (format: FormatName) =>
    COMMON[operation].includes(format) || dialects?.[format] !== undefined
  return (Object.keys(provider[operation] ?? {}) as FormatName[]).filter(isSupported)
}

/** The operations that the gateway supports for a vendor, in the order of docs/reference/relay-api.md: Relay routes. */
export const offersOf = (provider: Provider): Operation[] =>
  OPERATIONS.filter(operation => supportedFormats(provider, operation).length > 0)

/** All formats that the gateway uses for a vendor, without duplicates. */
export const formatsOf = (provider: Provider): FormatName[] => [
  ...new Set(offersOf(provider).flatMap(operation => supportedFormats(provider, operation))),
]
