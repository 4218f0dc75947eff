import type { ChatError } from '../../chat/hub/hub.ts'
import type { Price, When } from '../../domain/price.ts'
import type { ToolCalls, Usage } from '../../domain/usage.ts'
import type { AnswerMeter as Meter } from '../../metering/stream-meter.ts'
import type { TextSample } from '../../metering/text-sample.ts'
import type { Bounds } from '../../requests/facts.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { Upload } from '../../wire/multipart.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { WholeResponse } from '../upstream/upstream.ts'

/** An answer as it goes to the client. */
export type ClientAnswer = { readonly body: Buffer; readonly contentType: string }

/** A whole answer, as its operation reads it. `fault` says why it is no answer of this kind. */
export type AnswerReading = {
  readonly usage: Usage | undefined
  /** The usage that the answer itself shows, such as its pictures or seconds; charged where the provider reports none. */
  readonly measured?: Usage
  /** The cost that the vendor reports, where no usage reports it. */
  readonly vendorCost?: string | undefined
  readonly outputBytes: number
  /** The beginning of the output, where its tokens have to be counted. */
  readonly sample?: Pick<TextSample, 'text'> | undefined
  readonly fault?: string
  /** Calls of the provider's own tools, where the answer has no usage that counts them. */
  readonly toolCalls?: ToolCalls
  /** The client's answer, where it is not the provider's own bytes; a function where it reports the counted usage. */
  readonly answer?: ClientAnswer | ((usage: Usage) => ClientAnswer | Promise<ClientAnswer>)
  /** What a picture turned out to be, where the answer says so: its price may depend on it. */
  readonly made?: When
}

export type StreamMeter = Meter & {
  /** What a picture turned out to be, where the events say so. */
  made?(): When
  /** As in `AnswerReading`: the usage that the stream itself shows so far. */
  measured?(): Usage
  /** Ends a translated stream with an error in the client's format, which only the stream's encoder can write. */
  breakOff?(error: ChatError): readonly Buffer[]
}

/** A request as it goes to one channel, and how the channel's answer is read. */
export type ChannelRequest = {
  /** Several: the provider takes them one at a time, and answers each. */
  readonly body: Buffer | Upload | readonly (Buffer | Upload)[]
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  /** What this provider cannot take of the request: the client is warned. */
  readonly warnings?: readonly string[]
  /** Fields that no provider is sent, as the client named them; the first warning is about these. */
  readonly removed?: readonly string[]
  /** The body is in the client's own format, so that the operation itself can read it again. */
  readonly isOwnFormat?: boolean
  /** The bounds of a body in another format after an override has changed it; absent: they are unknown. */
  boundsOf?(parsed: Readonly<Record<string, unknown>>): Bounds
  /** The services that the body asks for, where its format may lack words for some; absent: those of the client. */
  readonly services?: When
  /** The provider's tools that the body asks for, where it is translated; absent: those of the client. */
  readonly tools?: RequestedTools
  /** At once for a small answer; a large one is read in slices, so that other requests get their turn. */
  readWhole(answer: WholeResponse): AnswerReading | Promise<AnswerReading>
  /** `length` is that of a file, where the provider reports it. */
  meter(length?: number): StreamMeter
}

/** The part of it that is sent. */
export type UpstreamBody = Omit<ChannelRequest, 'readWhole' | 'meter'>

/** What a channel's price allows of a request; without it, a body is looked at but not sent. */
export type WorkLimits = {
  /** The longest answer, for vendors that require a limit. */
  maxOutput(channel: RelayChannel): number
  /** The requested services that the price names. */
  granted(channel: RelayChannel): When
  priceOn(channel: RelayChannel): Price
  /** Whether every model that the request lets the provider choose from has a price. */
  passesRouting(channel: RelayChannel): boolean
}
