import { isObject } from '../../domain/json-value.ts'
import { chatError } from '../hub/error.ts'
import { compact, extrasOf, lenientFields } from '../hub/fields.ts'
import type { DecodeOptions } from '../hub/format.ts'
import type { ChatAnswer, ChatError } from '../hub/hub.ts'
import { createdIn, decodeParts, FORMAT } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop } from './stop.ts'
import { readOllamaUsage } from './usage.ts'

export function decodeAnswer(
  body: unknown,
  { idsAndClock }: DecodeOptions,
): ChatAnswer | { error: ChatError } {
  if (!isObject(body))
    return { error: chatError('server', 'The response of the provider is not a JSON object.') }
  if (body.error) return { error: decodeError({ status: 200, body }) }
  if (!isObject(body.message)) {
    return { error: chatError('server', 'The response of the provider has no message.') }
  }
  const answer = lenientFields(body)
  const parts = decodeParts(body.message, idsAndClock.newId)
  const hasCalls = parts.some(part => part.type === 'toolCall')
  for (const name of ['message', 'created_at', 'done', 'done_reason', 'prompt_eval_count', 'eval_count']) {
    answer.any(name)
  }
  return compact<ChatAnswer>({
    id: '',
    model: answer.text('model') ?? '',
    createdS: createdIn(body),
    choices: [{ parts, stop: { reason: decodeStop(body.done_reason, hasCalls) } }],
    usage: readOllamaUsage(body),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}
