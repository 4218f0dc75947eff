import { member, textOf } from '../../domain/json-value.ts'
import { chatError, errorKind, retryAfterS } from '../hub/error.ts'
import type { VendorErrorAnswer } from '../hub/format.ts'
import type { ChatError } from '../hub/hub.ts'

/** `{id, message, error_type}` */
export function decodeError({ status, body, header }: VendorErrorAnswer): ChatError {
  const type = textOf(member(body, 'error_type'))
  const reportedMessage = textOf(member(body, 'message')) ?? textOf(member(body, 'error')) ?? textOf(body)
  const message = reportedMessage ?? `The provider returned status ${status}.`
  const hints = type === 'TOO_MANY_TOKENS' ? ['context_length_exceeded'] : []
  const kind = errorKind(status >= 400 ? status : 500, message, hints)
  return chatError(kind, message, { type, retryAfterS: retryAfterS(header) })
}
