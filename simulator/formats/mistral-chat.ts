import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import type { Inquiry, Protocol, Reply } from './format.ts'
import { answerChat } from './openai-chat.ts'
import { decodeRequest } from './openai-request.ts'
import { schemeKey } from './vendor.ts'

/** Fields of the common format that this vendor rejects as unknown. */
const REFUSED = [
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'seed',
  'service_tier',
  'store',
  'stream_options',
  'top_logprobs',
  'user',
]

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function check(request: WireObject): void {
  const strange = REFUSED.find(name => name in request)
  if (strange !== undefined) throw new ProviderError('bad_value', 'Extra inputs are not permitted', strange)
  if (request.tool_choice === 'required')
    throw new ProviderError('bad_value', "Input should be 'auto', 'none' or 'any'", 'tool_choice')
  for (const message of listOf(request.messages).filter(isObject)) {
    const calls = listOf(message.tool_calls).filter(isObject)
    for (const id of [message.tool_call_id, ...calls.map(call => call.id)]) {
      if (id !== undefined && !/^[a-zA-Z0-9]{9}$/.test(textOf(id) ?? ''))
        throw new ProviderError(
          'bad_value',
          'Tool call id has to be a-z, A-Z, 0-9, with a length of 9.',
          'messages',
        )
    }
  }
}

/** The answers of the common format, with usage in every stream. */
function chat(inquiry: Inquiry): Reply {
  const { request } = decodeRequest(inquiry.body)
  check(request)
  const { tool_choice: choice, ...rest } = request
  const common = {
    ...rest,
    ...(choice !== undefined && { tool_choice: choice === 'any' ? 'required' : choice }),
    ...(rest.stream === true && { stream_options: { include_usage: true } }),
  }
  return answerChat({ ...inquiry, body: JSON.stringify(common) })
}

/** Mistral's chat; errors have the path of the field. */
export const mistralChat = {
  name: 'Mistral chat',
  keyOf: schemeKey('Bearer'),
  routes: [{ method: 'POST', path: /^\/mistral\/v1\/chat\/completions$/, answer: chat }],
  encodeRefusal: ({ kind, message, field }) =>
    kind === 'no_key'
      ? JSON.stringify({ detail: message })
      : JSON.stringify({
          object: 'error',
          message: { detail: [{ type: 'extra_forbidden', loc: ['body', field], msg: message }] },
          type: 'invalid_request_error',
          code: null,
        }),
  encodeFailure: ({ message }) =>
    JSON.stringify({ object: 'error', message, type: 'service_error', param: null, code: null }),
} satisfies Protocol
