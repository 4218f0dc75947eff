import { chatError, errorKind, retryAfterS } from '../error.ts'
import type { ErrorAnswer } from '../format.ts'
import type { ChatError } from '../hub.ts'
import { member, textOf } from '../openai/value.ts'

/** `{error: "…"}`, with any status and as a line of a stream; some proxies put an object there. */
export function decodeError({ status, body, header }: ErrorAnswer): ChatError {
  const error = member(body, 'error')
  const told = textOf(error) ?? textOf(member(error, 'message')) ?? textOf(body)
  const message = told ?? `the provider answered with the status ${status}`
  const kind = errorKind(status >= 400 ? status : 500, message, [])
  return chatError(kind, message, { retryAfterS: retryAfterS(header) })
}
