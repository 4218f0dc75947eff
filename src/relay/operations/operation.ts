import type { IdsAndClock } from '../../chat/hub/format.ts'
import type { ChatError } from '../../chat/hub/hub.ts'
import type { Refusal } from '../../domain/errors.ts'
import type { Operation } from '../../domain/operation.ts'
import type { Price, When } from '../../domain/price.ts'
import type { Settings } from '../../domain/setting.ts'
import type { ToolCalls, ToolCount, Usage } from '../../domain/usage.ts'
import type { PromptText } from '../../metering/prompt-text.ts'
import type { AnswerMeter as Meter } from '../../metering/stream-meter.ts'
import type { TextSample } from '../../metering/text-sample.ts'
import type { FormatName, Provider, Values } from '../../providers/index.ts'
import type { Bounds } from '../../requests/facts.ts'
import type { NameRules } from '../../requests/field-rules.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { Member } from '../../wire/json-edit.ts'
import type { Upload } from '../../wire/multipart.ts'
import type { ErrorFormat } from '../answer/error-format.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form } from '../intake/form.ts'
import type { TokenCounter } from '../price/token-count.ts'
import type { WholeResponse } from '../upstream/upstream.ts'

/** An answer as it goes to the client. */
type ClientAnswer = { readonly body: Buffer; readonly contentType: string }

/** A whole answer, as its operation reads it. `fault` says why it is no answer of this kind. */
export type AnswerReading = {
  readonly usage: Usage | undefined
  /** The usage that the answer itself shows, such as its pictures or seconds; charged where the provider reports none. */
  readonly measured?: Usage
  /** The cost that the vendor reports, where no usage reports it. */
  readonly vendorCost?: string | undefined
  readonly outputBytes: number
  /** The beginning of the output, where its tokens have to be counted. */
  readonly sample?: TextSample | undefined
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
export type ChannelBody = Omit<ChannelRequest, 'readWhole' | 'meter'>

/** What the price of a channel says of a request; without it, a body is looked at but not sent. */
export type WorkLimits = {
  /** What its answers may come to, for vendors that must be told a limit. */
  maxOutput(channel: RelayChannel): number
  /** What is asked for, without the services that it does not name. */
  granted(channel: RelayChannel): When
  priceOn(channel: RelayChannel): Price
  /** Whether every model that the request names for the provider to choose from has a price there. */
  passesRouting(channel: RelayChannel): boolean
}

/** Counts beside tokens that no answer to a request can pass. */
export type WorkUnits = Partial<Pick<Usage, 'calls' | 'characters' | 'seconds' | 'images' | ToolCount>>

/** A request that its operation has read and checked. */
export type Work = {
  readonly model: string
  readonly isStream: boolean
  /** It says itself how the usage of its stream is told, so that a host which cannot take that refuses its own words. */
  readonly hasStreamOptions?: boolean
  /** No request of this kind has more tokens than this; text counts its bytes. */
  readonly inputTokens: number
  /** What a tokeniser would find, roughly: for limits and for what is owed when a provider tells nothing. */
  readonly countedInput: number
  /** What the model is shown, for a count in place of that. */
  promptText?(): PromptText
  /** Everything that could become prompt, and tokens beyond that: for a closer bound where the bytes are too many. */
  boundText?(): { readonly text: string; readonly extra: number } | undefined
  /** At most so many output tokens, given what the model's price says of its longest answer. */
  outputTokens(modelMaximum: number | undefined): number
  /**
   * Output tokens that the client or the model's price (`modelMaximum`) allows; undefined where neither does. Absent: what
   * `outputTokens` says without a maximum.
   */
  outputLimit?(modelMaximum: number | undefined): number | undefined
  /** The longest sound that a provider is believed to report, in seconds; absent: those of `units`. */
  readonly secondsLimit?: number
  /** One call where nothing is said. */
  readonly units?: WorkUnits
  /** The tools that the provider is asked to run; absent: an operation that has none. */
  readonly tools?: RequestedTools
  /** Models that it names for a provider to choose from, on channels that let it: the dearest is held for and billed. */
  readonly namedModels?: readonly string[]
  /** What a picture is asked to be, and how a chat is asked to be served. */
  readonly asked?: When
  /** What is owed where a provider tells nothing; absent: the counted tokens of one call. */
  counted?(outputTokens: number): Usage
  /** What an attempt that nobody answers may have used up; absent: what is counted without any output. */
  estimated?(): Usage
  /** Why a channel cannot be asked this; a request that fits none is refused before anything is held. */
  unfit?(channel: RelayChannel, sentModel: string): Refusal | undefined
  /** Values of the path that this request brings itself, where the channel's path has a place for them. */
  placeholders?(channel: RelayChannel): Values | undefined
  /**
   * The request for a channel, with the client's own bytes wherever nothing has to change. A large body that has to be
   * translated takes a while.
   */
  requestFor(
    channel: RelayChannel,
    sentModel: string,
    limits?: WorkLimits,
  ): ChannelRequest | Promise<ChannelRequest>
  /** For answers that are bytes, not documents: whether one of this type passes as it comes. */
  passes?(contentType: string): boolean
  /** What such bytes are where their provider does not say. */
  readonly fileType?: string
  /** A stream was asked for, and an answer in one piece is taken as well. */
  readonly isWholeTaken?: boolean
  /** The longest answer that is received whole; absent: 32 MiB. */
  readonly maxAnswerBytes?: number
  /** Answers without asking anybody, and without a price. */
  tell?(counter: Pick<TokenCounter, 'count'>): Promise<unknown>
  /** The same for the same request: for operations that are done once for an `Idempotency-Key`. */
  digest?(): string | Promise<string>
  /** Rather refused than done without something that was asked for. */
  readonly isStrict?: boolean
  /** Lets go of what the request brought along. */
  dispose?(): void
}

/** What an operation may want to know of the gateway while it reads a request. */
export type ReadContext = {
  settings(): Settings
  isServed(model: string): boolean
  readonly ambience: IdsAndClock
}

/** One thing the relay can be asked for. The walk learns nothing about any of them. */
export type OperationSpec = {
  readonly operation: Operation
  readonly format: FormatName
  /** The format for a model of a provider, where there is a choice; absent: always `format`. */
  formatFor?(provider: Provider, model: string): FormatName | undefined
  /** The last part of the path, where it is not the one the provider's file tells. */
  readonly sibling?: string
  /** How its clients are told errors; absent: in the common shape. */
  readonly voice?: ErrorFormat
  /** How its requests name their members; absent: in snake case. */
  readonly names?: NameRules
  /** It needs no more of long texts than how long they are, and may be given a LongText in their place. */
  readonly skims?: true
  /** Absent: it takes no JSON. `members`: those of the body, where they are known already. */
  read?(parsed: Record<string, unknown>, bytes: Buffer, desk: ReadContext, members?: readonly Member[]): Work
  /** Absent: it takes no multipart/form-data. The form is let go of by `dispose`. */
  readForm?(form: Form, desk: ReadContext): Work | Promise<Work>
}
