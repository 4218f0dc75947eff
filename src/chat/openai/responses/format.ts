import { isObject } from '../../../domain/json-value.ts'
import type { UsageOptions } from '../../../metering/openai-usage.ts'
import type { Format } from '../../hub/format.ts'
import { restoringCustomCalls, withCustomCalls } from '../../hub/tools/custom-tools.ts'
import { decodeError, encodeError } from '../chat-completions/error.ts'
import { decodeAnswer, encodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeRequest } from './encode-request.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { createStreamEncoder } from './stream-encoder.ts'
import { usageIn } from './usage.ts'

/** OpenAI's Responses API, without the features that need stored answers. */
export const responses = {
  name: FORMAT,
  turns: 'input',
  contentType: 'text/event-stream',
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer: (answer, options) => encodeAnswer(withCustomCalls(answer, options.request), options),
  createStreamDecoder,
  createStreamEncoder: options => restoringCustomCalls(createStreamEncoder(options), options.request),
  readUsage: (body: unknown, options?: UsageOptions) => (isObject(body) ? usageIn(body, options) : undefined),
  decodeError,
  encodeError,
} as const satisfies Format
