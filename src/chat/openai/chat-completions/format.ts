import { usageIn } from '../../../metering/openai-usage.ts'
import type { Format } from '../../hub/format.ts'
import { restoringCustomCalls, withCustomCalls } from '../../hub/tools/custom-tools.ts'
import { decodeAnswer, encodeAnswer } from './answer.ts'
import { FORMAT } from './content.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeRequest } from './encode-request.ts'
import { decodeError, encodeError } from './error.ts'
import { createStreamDecoder } from './stream-decoder.ts'
import { createStreamEncoder } from './stream-encoder.ts'

/** Chat completions of OpenAI and of most other hosts. */
export const openaiChat = {
  name: FORMAT,
  turns: 'messages',
  contentType: 'text/event-stream',
  decodeRequest,
  encodeRequest,
  decodeAnswer,
  encodeAnswer: (answer, options) => encodeAnswer(withCustomCalls(answer, options.request), options),
  createStreamDecoder,
  createStreamEncoder: options => restoringCustomCalls(createStreamEncoder(options), options.request),
  readUsage: usageIn,
  decodeError,
  encodeError,
} as const satisfies Format
