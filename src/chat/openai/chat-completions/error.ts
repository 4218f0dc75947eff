import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { chatError, ERROR_KINDS, errorKind, retryAfterS } from '../../hub/error.ts'
import type { EncodedError, VendorErrorAnswer } from '../../hub/format.ts'
import type { ChatError } from '../../hub/hub.ts'

/**
 * Decodes the error shapes of all hosts of this format: an object, a text (xAI), `detail` (Mistral's gateway, FastAPI),
 * `message` as text or object (docs/reference/formats.md: Provider error shapes).
 */
export function decodeError({ status, body, header }: VendorErrorAnswer): ChatError {
  const inner = member(body, 'error')
  const source = isObject(inner) ? inner : isObject(body) ? body : {}
  const message =
    textOf(member(source, 'message')) ??
    textOf(inner) ??
    textOf(member(body, 'message')) ??
    textOf(member(body, 'detail')) ??
    `The provider returned status ${status}.`
  const type = textOf(member(source, 'type'))
  const code = codeText(member(source, 'code'))
  // Hosts that send an error with a success status put the error status into the body.
  const reportedStatus = Number(member(source, 'code') ?? member(source, 'status'))
  const guess = type === 'invalid_request_error' ? 400 : 500
  const effectiveStatus =
    status >= 400 ? status : reportedStatus >= 400 && reportedStatus < 600 ? reportedStatus : guess
  const kind = errorKind(effectiveStatus, message, [type, code])
  return chatError(kind, message, {
    type,
    code,
    param: textOf(member(source, 'param')),
    retryAfterS: retryAfterS(header),
  })
}

/** An error inside an answer or a stream with a success status. */
export const errorInside = (body: unknown): ChatError => decodeError({ status: 200, body })

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value
  return isObject(value) || Array.isArray(value) ? JSON.stringify(value) : undefined
}

const codeText = (value: unknown): string | undefined =>
  typeof value === 'number' ? String(value) : textOf(value)

export function errorBody({ kind, message, type, code, param }: ChatError): JsonObject {
  const row: { type: string; code?: string } = ERROR_KINDS[kind]
  return { message, type: type ?? row.type, param: param ?? null, code: code ?? row.code ?? null }
}

export const encodeError = (error: ChatError): EncodedError => ({
  status: ERROR_KINDS[error.kind].status,
  body: { error: errorBody(error) },
})
