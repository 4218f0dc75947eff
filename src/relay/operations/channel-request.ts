import type { ChatError } from '../../chat/hub/hub.ts'
import type { Price, When } from '../../domain/price.ts'
import type { ToolCalls, Usage } from '../../domain/usage.ts'
import type { LostContent } from '../../domain/warning.ts'
import type { AnswerMeter as Meter } from '../../metering/stream-meter.ts'
import type { TextSample } from '../../metering/text-sample.ts'
import type { Bounds } from '../../requests/facts.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { Upload } from '../../wire/multipart.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { BufferedResponse } from '../upstream/exchange.ts'

/** An answer as it is sent to the client. */
export type ClientAnswer = { readonly body: Buffer; readonly contentType: string }

/** A non-stream answer as its operation reads it. `fault`: the reason why the answer is invalid. */
export type AnswerReading = {
  readonly usage: Usage | undefined
  /** The usage measured from the answer itself, such as images or seconds. It is charged if the provider reports none. */
  readonly measured?: Usage
  /** The cost that the vendor reports, if it is not part of the usage. */
  readonly vendorCost?: string | undefined
  readonly outputBytes: number
  /** The beginning of the output, if its tokens have to be counted. */
  readonly sample?: Pick<TextSample, 'text'> | undefined
  readonly fault?: string
  /** Calls of the provider's own tools, if no usage counts them. */
  readonly toolCalls?: ToolCalls
  /** The answer for the client; absent: the provider's own bytes. A function if it contains the counted usage. */
  readonly answer?: ClientAnswer | ((usage: Usage) => ClientAnswer | Promise<ClientAnswer>)
  /** The actual properties of a generated image, if the answer reports them: its price may depend on them. */
  readonly imageProperties?: When
}

export type StreamMeter = Meter & {
  /** It forwards the bytes of a file without looking for events in them. */
  readonly isFile?: boolean
  /** The actual properties of a generated image, if the events report them. */
  imageProperties?(): When
  /** As in `AnswerReading`: the usage measured from the stream so far. */
  measured?(): Usage
  /** Ends a translated stream with an error in the client's format. Only the stream's encoder can write it. */
  endWithError?(error: ChatError): readonly Buffer[]
}

/** The request for one channel, and the readers of its answer. */
export type ChannelRequest = {
  /** A list: the provider takes one body per request and answers each. */
  readonly body: Buffer | Upload | readonly (Buffer | Upload)[]
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  /** Warnings to the client about parts of the request that this provider does not support. */
  readonly warnings?: readonly string[]
  /** The first content of the request that this provider does not support; a warning names it too. */
  readonly lostContent?: LostContent
  /** Fields that are sent to no provider, as the client named them. The first warning is about these. */
  readonly removed?: readonly string[]
  /** The body is in the client's own format, so that the operation can read it again. */
  readonly isOwnFormat?: boolean
  /** The bounds of a body in another format after an override changed it; absent: unknown. */
  boundsOf?(parsed: Readonly<Record<string, unknown>>): Bounds
  /**
   * The services that the translated body requests, if its format cannot express all of them; absent: those of the
   * client.
   */
  readonly services?: When
  /** The provider tools that the translated body requests; absent: those of the client. */
  readonly tools?: RequestedTools
  /** Synchronous for a small answer. A large one is read in slices, so that the event loop stays responsive. */
  readBuffered(answer: BufferedResponse): AnswerReading | Promise<AnswerReading>
  /** `length`: the size of a file, if the provider reports it. */
  meter(length?: number): StreamMeter
}

/** The part that is sent. */
export type UpstreamBody = Omit<ChannelRequest, 'readBuffered' | 'meter'>

/** What a channel's price allows; without it, a body is only inspected, not sent. */
export type WorkLimits = {
  /** The maximum output, for vendors that require a limit. */
  maxOutput(channel: RelayChannel): number
  /** The requested services that have a price. */
  granted(channel: RelayChannel): When
  priceOn(channel: RelayChannel): Price
  /** Whether every model that the provider may choose for the request has a price. */
  passesRouting(channel: RelayChannel): boolean
}
