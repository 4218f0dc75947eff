import { member } from '../../../domain/json-value.ts'
import type { Outbound } from '../../hub/format.ts'
import { decodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeError } from './error.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { readBedrockUsage } from './usage.ts'

/** Converse and ConverseStream of Amazon Bedrock: one format for the models of many makers. */
export const bedrock = {
  name: FORMAT,
  turns: 'messages',
  encodeRequest,
  decodeAnswer,
  createStreamDecoder,
  readUsage: body => readBedrockUsage(member(body, 'usage')),
  decodeError,
} as const satisfies Outbound
