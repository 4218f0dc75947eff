import type { Format, Inbound } from '../hub/format.ts'
import { decodeAnswer, encodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeError, encodeError } from './error.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { createListEncoder, createStreamEncoder } from './stream-encoder.ts'
import { usageIn } from './usage.ts'

/** Google's generateContent, of AI Studio and of Vertex. */
export const gemini = {
  name: FORMAT,
  turns: 'contents',
  contentType: 'text/event-stream',
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer,
  createStreamDecoder,
  createStreamEncoder,
  readUsage: body => usageIn(body),
  decodeError,
  encodeError,
} as const satisfies Format

/** The same for clients that stream without `alt=sse`. It has a separate name, since no upstream uses it. */
export const geminiList = {
  name: 'gemini-list',
  turns: 'contents',
  contentType: 'application/json',
  decodeRequest,
  encodeAnswer,
  createStreamEncoder: createListEncoder,
  encodeError,
} as const satisfies Inbound
