import type { Outbound } from '../hub/format.ts'
import { decodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeError } from './error.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { readOllamaUsage } from './usage.ts'

/** Ollama's own chat API: streams are lines of JSON. */
export const ollama = {
  name: FORMAT,
  turns: 'messages',
  encodeRequest,
  decodeAnswer,
  createStreamDecoder,
  readUsage: readOllamaUsage,
  decodeError,
} as const satisfies Outbound
