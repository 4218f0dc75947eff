import { member, textOf } from '../../domain/json-value.ts'
import { chatError, errorKind, retryAfterS } from '../hub/error.ts'
import type { VendorErrorAnswer } from '../hub/format.ts'
import type { ChatError } from '../hub/hub.ts'

/** `{error: "…"}`, with any status and as a line of a stream. Some proxies send an object as `error`. */
export function decodeError({ status, body, header }: VendorErrorAnswer): ChatError {
  const error = member(body, 'error')
  const reportedMessage = textOf(error) ?? textOf(member(error, 'message')) ?? textOf(body)
  const message = reportedMessage ?? `The provider returned status ${status}.`
  const kind = errorKind(status >= 400 ? status : 500, message, [])
  return chatError(kind, message, { retryAfterS: retryAfterS(header) })
}
