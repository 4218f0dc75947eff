import { isObject, type JsonObject } from '../../domain/json-value.ts'
import { chatError } from '../hub/error.ts'
import { compact, extrasOf, lenientFields } from '../hub/fields.ts'
import type { DecodeOptions } from '../hub/format.ts'
import type { ChatAnswer, ChatError, Part } from '../hub/hub.ts'
import { decodeCall, decodeContent, FORMAT, isOfText, withCitations } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop, isFailed } from './stop.ts'
import { readCohereUsage } from './usage.ts'

/** The vendor's answers have no model name. */
export function decodeAnswer(
  body: unknown,
  { idsAndClock }: DecodeOptions,
): ChatAnswer | { error: ChatError } {
  if (!isObject(body))
    return { error: chatError('server', 'The response of the provider is not a JSON object.') }
  if (!isObject(body.message)) return { error: decodeError({ status: 200, body }) }
  if (isFailed(body.finish_reason)) return { error: failure(body.finish_reason) }
  const answer = lenientFields(body)
  const message = answer.needFields('message')
  const plan = message.text('tool_plan') ?? ''
  const calls = message.each('tool_calls').map(({ value }): Part => {
    const call = decodeCall(value, idsAndClock.newId)
    return { ...call, arguments: call.arguments || '{}' }
  })
  const citations = message.each('citations').map(({ value }): JsonObject => value)
  const textParts = withCitations(decodeContent(message), citations.filter(isOfText))
  const planned: readonly Part[] = plan === '' ? [] : [{ type: 'reasoning', text: plan }]
  for (const name of ['finish_reason', 'usage']) answer.any(name)
  return compact<ChatAnswer>({
    id: answer.text('id') ?? '',
    model: '',
    choices: [
      {
        parts: [...textParts, ...planned, ...calls],
        stop: { reason: decodeStop(body.finish_reason, calls.length > 0) },
      },
    ],
    usage: readCohereUsage(body.usage),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}

export const failure = (reason: unknown, message?: unknown): ChatError =>
  reason === 'TIMEOUT'
    ? chatError('timeout', 'The provider timed out during the response.', { type: 'TIMEOUT' })
    : chatError(
        'server',
        typeof message === 'string' && message !== ''
          ? message
          : 'The provider could not finish the response.',
        { type: String(reason) },
      )
