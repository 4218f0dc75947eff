import { errorKind } from '../../chat/hub/error.ts'
import type { IdsAndClock, Inbound } from '../../chat/hub/format.ts'
import type { ChatError, ErrorKind } from '../../chat/hub/hub.ts'
import type { Refusal } from '../../domain/errors.ts'
import { relayError } from '../../http/errors.ts'

/** An error in the common shape, with its status: whoever speaks another format is told the same in its own words. */
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
  /** What it comes to, where the provider's format says so. */
  readonly kind?: ErrorKind | undefined
}

/** How the clients of a format are told whatever is no answer. */
export type ErrorFormat = {
  /** Headers of every answer beside the common ones. */
  headers?(requestId: string): Readonly<Record<string, string>>
  /** Says in the middle of a stream that it is still alive; absent: the format has no word for it. */
  readonly keepAlive?: string
  /** The type of a streamed answer, where it is no stream of events. */
  readonly streamType?: string
  errorBody(trouble: RelayError, requestId: string): unknown
  /** Ends a stream with an error: never with what a good one ends with. */
  lastEvent(trouble: RelayError, ambience: IdsAndClock): string | Buffer
}

export const relayErrorOf = (refusal: Refusal): RelayError => relayError(refusal) as RelayError

export const COMMON_ERROR_FORMAT: ErrorFormat = {
  keepAlive: ': keep-alive\n\n',
  errorBody: ({ body }) => body,
  lastEvent: ({ body }) => `data: ${JSON.stringify(body)}\n\n`,
}

/** The same in the hub's words. Inside of a stream there is no status to go by. */
export function chatErrorOf({ status, body, kind }: RelayError): ChatError {
  const { message, type, param, code } = body.error
  const words = code === null ? undefined : String(code)
  return {
    kind: kind ?? errorKind(status < 400 ? 500 : status, message, [type, words]),
    message,
    type,
    ...(words !== undefined && { code: words }),
    ...(param !== null && { param }),
  }
}

/** The voice of a format: its own error shape, and its own stream's grammar. */
export const errorFormatOf = (
  format: Inbound,
  more: Pick<ErrorFormat, 'headers' | 'keepAlive' | 'streamType'> & { readonly isIdTold?: boolean } = {},
): ErrorFormat => ({
  ...(more.headers && { headers: more.headers }),
  ...(more.keepAlive !== undefined && { keepAlive: more.keepAlive }),
  ...(more.streamType !== undefined && { streamType: more.streamType }),
  errorBody: (trouble, requestId) => ({
    ...format.encodeError(chatErrorOf(trouble)).body,
    ...(more.isIdTold && { request_id: requestId }),
  }),
  lastEvent: (trouble, ambience) =>
    Buffer.concat(
      format.createStreamEncoder({ ambience }).push({ type: 'error', error: chatErrorOf(trouble) }),
    ),
})
