import type { JsonObject } from '../../domain/json-value.ts'
import type { Usage } from '../../domain/usage.ts'
import type { Warning } from '../../domain/warning.ts'
import type { UsageOptions } from '../../metering/openai-usage.ts'
import type { Turns } from '../../requests/provider-tools.ts'
import type { RequestAddress, RequestFault } from '../../requests/request-fields.ts'
import type { Stage } from '../../wire/stage.ts'
import type { ChatDialect } from './dialect.ts'
import type { ChatAnswer, ChatError, ChatEvent, ChatRequest } from './hub.ts'

/** Ids and the clock are passed in, so that a format is a pure function of its input. */
export type IdsAndClock = {
  /** Creates an id with this prefix: `call_`, `msg_`. */
  readonly newId: (prefix: string) => string
  readonly nowS: () => number
}

export type DecodedRequest = { readonly request: ChatRequest } | { readonly fault: RequestFault }

export type EncodeOptions = {
  /** The model's maximum output, if known: for formats that require a limit. */
  readonly maxOutputTokens?: number
  /** The vendor rejects the reasoning of earlier turns (openai-chat: hosts differ). */
  readonly omitReasoning?: boolean
  /** The vendor accepts Anthropic's cache marks in this format (openai-chat: hosts differ, most reject them). */
  readonly keepCacheMarks?: boolean
  /** The vendor's dialect of this format (openai-chat: hosts that reject unknown fields). */
  readonly dialect?: ChatDialect
}

export type EncodedRequest = {
  readonly body: JsonObject
  /** The parts of the request that the format cannot express; empty: nothing was lost. */
  readonly warnings: readonly Warning[]
  /** Headers that the body requires. */
  readonly headers?: Readonly<Record<string, string>>
}

export type DecodeOptions = {
  readonly idsAndClock: IdsAndClock
  /** How this vendor's usage counts differ from the format's definition. */
  readonly usage?: UsageOptions
}

export type StreamDecoderOptions = DecodeOptions & {
  /** The number of requested choices: the answer is complete when each has finished. */
  readonly choices?: number
}

export type AnswerOptions = {
  readonly idsAndClock: IdsAndClock
  /** The request: openai-chat reports the usage of a stream only on request, responses repeats fields of the request. */
  readonly request?: ChatRequest
}

/** An error response in the client's format. */
export type EncodedError = { readonly status: number; readonly body: JsonObject }

/** An error response of a vendor. */
export type VendorErrorAnswer = {
  readonly status: number
  readonly body: unknown
  readonly header?: (name: string) => string | undefined
}

export type StreamDecoder = Stage<Buffer, ChatEvent> & {
  /** Whether the answer is complete. Only for formats without a terminator, whose last event is held back instead. */
  isComplete?(): boolean
  /**
   * From now on a malformed event is skipped and reported; it does not end the stream with an error. For streams that are
   * forwarded unchanged, so that the client receives the event anyway.
   */
  skipMalformed(report: () => void): void
}

/** A format of upstreams: the gateway encodes requests and decodes answers. */
export type Outbound = {
  readonly name: string
  readonly turns: Turns
  encodeRequest(request: ChatRequest, options?: EncodeOptions): EncodedRequest
  /** Decodes a parsed body with a success status. Some vendors send errors with such a status. */
  decodeAnswer(body: unknown, options: DecodeOptions): ChatAnswer | { readonly error: ChatError }
  /**
   * Bytes in, events out. A decoder never throws on a vendor's bytes: it skips unknown events, and a broken stream yields
   * one `error`. Every stream ends with one `end` or one `error`, and nothing follows.
   */
  createStreamDecoder(options: StreamDecoderOptions): StreamDecoder
  /** The usage that a non-stream answer reports; undefined: none, or an invalid one. */
  readUsage(body: unknown, options?: UsageOptions): Usage | undefined
  decodeError(answer: VendorErrorAnswer): ChatError
}

/** A format of clients: the gateway decodes requests and encodes answers. */
export type Inbound = {
  readonly name: string
  readonly turns: Turns
  readonly contentType: string
  decodeRequest(body: unknown, address?: RequestAddress): DecodedRequest
  encodeAnswer(answer: ChatAnswer, options: AnswerOptions): JsonObject
  /**
   * Events in, bytes out. Only the `end` event produces the closing bytes, so that the caller can hold that event back
   * until the charge is recorded. `end()` without an `end` or `error` event reports to the client that the stream is
   * incomplete.
   */
  createStreamEncoder(options: AnswerOptions): Stage<ChatEvent, Buffer>
  encodeError(error: ChatError): EncodedError
}

/** A format of both clients and upstreams. */
export type Format = Inbound & Outbound
