import { member } from '../../../domain/json-value.ts'
import type { Format } from '../../hub/format.ts'
import { decodeAnswer, encodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeError, encodeError } from './error.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { createStreamEncoder } from './stream-encoder.ts'
import { readAnthropicUsage } from './usage.ts'

/** Anthropic's Messages API, which several other hosts support too. */
export const anthropic = {
  name: FORMAT,
  turns: 'messages',
  contentType: 'text/event-stream',
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer,
  createStreamDecoder,
  createStreamEncoder,
  readUsage: body => readAnthropicUsage(member(body, 'usage')),
  decodeError,
  encodeError,
} as const satisfies Format
