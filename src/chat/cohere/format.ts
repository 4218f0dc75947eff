import { member } from '../../domain/json-value.ts'
import type { Outbound } from '../hub/format.ts'
import { decodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeError } from './error.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { readCohereUsage } from './usage.ts'

/** Cohere's chat, version 2. */
export const cohere = {
  name: FORMAT,
  turns: 'messages',
  encodeRequest,
  decodeAnswer,
  createStreamDecoder,
  readUsage: body => readCohereUsage(member(body, 'usage')),
  decodeError,
} as const satisfies Outbound
