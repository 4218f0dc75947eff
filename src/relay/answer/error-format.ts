import { errorKind } from '../../chat/hub/error.ts'
import type { IdsAndClock, Inbound } from '../../chat/hub/format.ts'
import type { ChatError, ErrorKind } from '../../chat/hub/hub.ts'
import type { Refusal } from '../../domain/errors.ts'
import { relayError } from '../../http/errors.ts'

/** An error in the common format, with its status. Other formats encode it from this one. */
export type RelayError = {
  readonly status: number
  readonly body: {
    readonly error: {
      readonly message: string
      readonly type: string
      readonly param: string | null
      readonly code: string | number | null
    }
  }
  /** The kind of the error, if the provider's format names it. */
  readonly kind?: ErrorKind | undefined
  /** For formats whose body has it, too (Gemini). */
  readonly retryAfterS?: number | undefined
}

/** How a format encodes errors, keep-alives and headers. */
export type ErrorFormat = {
  /** Headers of every answer in addition to the common ones. */
  headers?(requestId: string): Readonly<Record<string, string>>
  /** An event that keeps an idle stream alive; absent: the format has none. */
  readonly keepAlive?: string
  /** The content type of a stream, if it is not `text/event-stream`. */
  readonly streamType?: string
  errorBody(error: RelayError, requestId: string): unknown
  /** Ends a stream with an error, without the event that ends a complete one. */
  lastEvent(error: RelayError, idsAndClock: IdsAndClock): string | Buffer
}

export const relayErrorOf = (refusal: Refusal): RelayError => ({
  ...(relayError(refusal) as RelayError),
  retryAfterS: refusal.retryAfterS,
})

export const COMMON_ERROR_FORMAT: ErrorFormat = {
  keepAlive: ': keep-alive\n\n',
  errorBody: ({ body }) => body,
  lastEvent: ({ body }) => `data: ${JSON.stringify(body)}\n\n`,
}

/** The same error for the hub. An error inside a stream has no status of its own. */
export function chatErrorOf({ status, body, kind, retryAfterS }: RelayError): ChatError {
  const { message, type, param, code } = body.error
  const words = code === null ? undefined : String(code)
  return {
    kind: kind ?? errorKind(status < 400 ? 500 : status, message, [type, words]),
    message,
    type,
    ...(words !== undefined && { code: words }),
    ...(param !== null && { param }),
    ...(retryAfterS !== undefined && { retryAfterS }),
  }
}

/** The error format of a chat format: its own error body and its own stream events. */
export const errorFormatOf = (
  format: Inbound,
  more: Pick<ErrorFormat, 'headers' | 'keepAlive' | 'streamType'> & { readonly hasRequestId?: boolean } = {},
): ErrorFormat => ({
  ...(more.headers && { headers: more.headers }),
  ...(more.keepAlive !== undefined && { keepAlive: more.keepAlive }),
  ...(more.streamType !== undefined && { streamType: more.streamType }),
  errorBody: (error, requestId) => ({
    ...format.encodeError(chatErrorOf(error)).body,
    ...(more.hasRequestId && { request_id: requestId }),
  }),
  lastEvent: (error, idsAndClock) =>
    Buffer.concat(
      format.createStreamEncoder({ idsAndClock }).push({ type: 'error', error: chatErrorOf(error) }),
    ),
})
