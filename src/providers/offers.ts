import { OUTBOUND } from '../chat/index.ts'
import { OPERATIONS, type Operation } from '../domain/operation.ts'
import type { DialectOf, FormatName, Provider } from './provider.ts'

/** What is spoken without a word from a vendor's own file, by operation. */
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

/** The formats in which a vendor is asked for an operation, preferred first; a path alone is not enough. */
export function spokenFor(provider: Provider, operation: Operation): FormatName[] {
  const dialects = provider.dialects?.[operation as keyof DialectOf]
  const isSpoken = (format: FormatName) =>
    COMMON[operation].includes(format) || dialects?.[format] !== undefined
  return (Object.keys(provider[operation] ?? {}) as FormatName[]).filter(isSpoken)
}

/** What a vendor's channels offer here, in the order of docs/reference/relay-api.md: Relay routes. */
export const offersOf = (provider: Provider): Operation[] =>
  OPERATIONS.filter(operation => spokenFor(provider, operation).length > 0)

/** Every format that is spoken with a vendor in any operation, each once. */
export const formatsOf = (provider: Provider): FormatName[] => [
  ...new Set(offersOf(provider).flatMap(operation => spokenFor(provider, operation))),
]
