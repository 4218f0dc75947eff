import type { JsonObject } from '../../domain/json-value.ts'
import type { Usage } from '../../domain/usage.ts'
import type { Warning } from '../../domain/warning.ts'
import type { UsageOptions } from '../../metering/openai-usage.ts'
import type { RequestAddress, RequestFault } from '../../requests/request-fields.ts'
import type { Stage } from '../../wire/stage.ts'
import type { ChatDialect } from './dialect.ts'
import type { ChatAnswer, ChatError, ChatEvent, ChatRequest } from './hub.ts'

/** Ids and the clock come from outside, so that a format is a pure function of its input. */
export type IdsAndClock = {
  /** A new id that begins so: `call_`, `msg_`. */
  readonly newId: (prefix: string) => string
  readonly nowS: () => number
}

export type DecodedRequest = { readonly request: ChatRequest } | { readonly fault: RequestFault }

export type EncodeOptions = {
  /** The model's maximum output, where it is known: for formats that require a limit. */
  readonly maxOutputTokens?: number
  /** The vendor refuses the reasoning of earlier turns (openai-chat: hosts differ). */
  readonly omitReasoning?: boolean
  /** The vendor takes Anthropic's cache marks inside of this format (openai-chat: hosts differ, most refuse). */
  readonly keepCacheMarks?: boolean
  /** The vendor's dialect of this format (openai-chat: hosts that refuse unknown fields). */
  readonly dialect?: ChatDialect
}

export type EncodedRequest = {
  readonly body: JsonObject
  /** The parts of the request that the format cannot express; empty where nothing was lost. */
  readonly warnings: readonly Warning[]
  /** Headers that the body requires. */
  readonly headers?: Readonly<Record<string, string>>
}

export type DecodeOptions = {
  readonly idsAndClock: IdsAndClock
  /** How this vendor's counts differ from what the format means by them. */
  readonly usage?: UsageOptions
}

export type StreamDecoderOptions = DecodeOptions & {
  /** How many choices were asked for: the answer is whole when each has finished. */
  readonly choices?: number
}

export type AnswerOptions = {
  readonly idsAndClock: IdsAndClock
  /** The request: openai-chat reports the usage of a stream only on demand, responses repeats fields of the request. */
  readonly request?: ChatRequest
}

/** An error as it goes over the wire. */
export type EncodedError = { readonly status: number; readonly body: JsonObject }

/** The status and headers of an error. */
export type VendorErrorAnswer = {
  readonly status: number
  readonly body: unknown
  readonly header?: (name: string) => string | undefined
}

export type StreamDecoder = Stage<Buffer, ChatEvent> & {
  /** Whether the answer is complete; only for formats without a terminator, whose last event is held back instead. */
  isWhole?(): boolean
  /**
   * From here on an event that cannot be read is skipped and reported, in place of ending the stream with an error. For
   * streams whose bytes pass, so that the client receives the event unchanged.
   */
  skipMalformed(report: () => void): void
}

/** A format that upstreams speak: requests are written in it, answers read. */
export type Outbound = {
  readonly name: string
  encodeRequest(request: ChatRequest, options?: EncodeOptions): EncodedRequest
  /** Of a parsed body with a status of success; some vendors send errors with one. */
  decodeAnswer(body: unknown, options: DecodeOptions): ChatAnswer | { readonly error: ChatError }
  /**
   * Bytes in, events out. A decoder never throws on a vendor's bytes: it skips unknown events, and a broken
   * stream ends in one `error`. The list over the whole stream ends with `end` or `error`, and nothing follows.
   */
  createStreamDecoder(options: StreamDecoderOptions): StreamDecoder
  /** The usage that a whole answer reports; undefined where it reports none or an impossible one. */
  readUsage(body: unknown, options?: UsageOptions): Usage | undefined
  decodeError(answer: VendorErrorAnswer): ChatError
}

/** A format that clients speak: requests are read in it, answers written. */
export type Inbound = {
  readonly name: string
  readonly contentType: string
  decodeRequest(body: unknown, address?: RequestAddress): DecodedRequest
  encodeAnswer(answer: ChatAnswer, options: AnswerOptions): JsonObject
  /**
   * Events in, bytes out. The closing bytes come with `end` and only then, so that the caller can hold that event back
   * until the charge is recorded; `end()` without an `end` or `error` event reports to the client that the stream broke off.
   */
  createStreamEncoder(options: AnswerOptions): Stage<ChatEvent, Buffer>
  encodeError(error: ChatError): EncodedError
}

/** A format that both clients and providers speak. */
export type Format = Inbound & Outbound
