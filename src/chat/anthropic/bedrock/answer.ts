import { isObject, member } from '../../../domain/json-value.ts'
import { chatError } from '../../hub/error.ts'
import { compact, extrasOf, lenientFields } from '../../hub/fields.ts'
import type { DecodeOptions } from '../../hub/format.ts'
import type { ChatAnswer, ChatError } from '../../hub/hub.ts'
import { decodeBlock, FORMAT } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop, isFailed } from './stop.ts'
import { readBedrockUsage } from './usage.ts'

/** The vendor's answers have neither an id nor a model name. */
export function decodeAnswer(
  body: unknown,
  { idsAndClock }: DecodeOptions,
): ChatAnswer | { error: ChatError } {
  if (!isObject(body))
    return { error: chatError('server', 'The response of the provider is not a JSON object.') }
  const content = member(member(body.output, 'message'), 'content')
  if (!Array.isArray(content)) return { error: decodeError({ status: 200, body }) }
  if (isFailed(body.stopReason)) return { error: malformed(body.stopReason) }
  const answer = lenientFields(body)
  const parts = content.filter(isObject).flatMap(block => decodeBlock(block, idsAndClock.newId))
  const hasCalls = parts.some(part => part.type === 'toolCall')
  for (const name of ['output', 'stopReason', 'usage', 'metrics']) answer.any(name)
  return compact<ChatAnswer>({
    id: '',
    model: '',
    choices: [{ parts, stop: { reason: decodeStop(body.stopReason, hasCalls) } }],
    usage: readBedrockUsage(body.usage),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}

export const malformed = (reason: unknown): ChatError =>
  chatError('server', 'The model produced output that the provider cannot parse.', { type: String(reason) })
