import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { EMPTY } from '../../../domain/usage.ts'
import { toolCallsIn } from '../../../metering/tool-calls.ts'
import { chatError } from '../../hub/error.ts'
import { compact, extrasOf, lenientFields, ownExtras } from '../../hub/fields.ts'
import type { AnswerOptions, DecodeOptions } from '../../hub/format.ts'
import type { ChatAnswer, ChatError } from '../../hub/hub.ts'
import { isRefusal, stopOf } from '../../hub/refusal.ts'
import { answerBlocks, decodeBlocks, FORMAT } from './content.ts'
import { decodeError } from './error.ts'
import { decodeStop, encodeStop } from './stop.ts'
import { encodeUsage, readAnthropicUsage } from './usage.ts'

export function decodeAnswer(body: unknown, _options: DecodeOptions): ChatAnswer | { error: ChatError } {
  if (!isObject(body))
    return { error: chatError('server', 'The response of the provider is not a JSON object.') }
  if (body.type === 'error' || member(body, 'error')) return { error: decodeError({ status: 200, body }) }
  if (!Array.isArray(body.content)) {
    return { error: chatError('server', 'The response of the provider has no content.') }
  }
  const answer = lenientFields(body)
  const parts = decodeBlocks(answer)
  const hasCalls = parts.some(part => part.type === 'toolCall')
  for (const name of ['type', 'role', 'stop_reason', 'stop_sequence', 'stop_details', 'usage'])
    answer.any(name)
  return compact<ChatAnswer>({
    id: answer.text('id') ?? '',
    model: answer.text('model') ?? '',
    choices: [{ parts, stop: decodeStop(body, hasCalls) }],
    usage: readAnthropicUsage(body.usage),
    toolCalls: toolCallsIn(body.content),
    extras: extrasOf(FORMAT, answer.rest()),
  })
}

/** An answer in this format has one choice. */
export function encodeAnswer(answer: ChatAnswer, { idsAndClock, request }: AnswerOptions): JsonObject {
  const [choice] = answer.choices
  return {
    ...ownExtras(FORMAT, answer),
    id: messageId(answer.id, idsAndClock.newId),
    type: 'message',
    role: 'assistant',
    model: modelForClient(answer.model, request),
    content: choice?.parts.flatMap(answerBlocks) ?? [],
    ...encodeStop(stopOf(choice?.stop ?? { reason: 'stop' }, choice?.parts.some(isRefusal) ?? false)),
    usage: encodeUsage(answer.usage ?? EMPTY),
  }
}

/** The requested name. Some clients (Claude Code) send reasoning signatures back only to the model that they requested. */
export const modelForClient = (model: string, request: AnswerOptions['request']): string =>
  request?.model || model

/** Message ids of this format share a prefix; the id of another vendor follows it. */
export function messageId(id: string, newId: (prefix: string) => string): string {
  if (id === '') return newId('msg_')
  return id.startsWith('msg_') ? id : `msg_${id}`
}
