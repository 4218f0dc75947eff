import type { IdsAndClock } from '../../chat/hub/format.ts'
import type { Refusal } from '../../domain/errors.ts'
import type { When } from '../../domain/price.ts'
import type { Settings } from '../../domain/setting.ts'
import type { ToolCount, Usage } from '../../domain/usage.ts'
import type { PromptText } from '../../metering/prompt-text.ts'
import type { FormatName, Operation, Provider, Values } from '../../providers/index.ts'
import type { NameRules } from '../../requests/field-rules.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { Member } from '../../wire/json-edit.ts'
import type { ErrorFormat } from '../answer/error-format.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form } from '../intake/form.ts'
import type { TokenCounter } from '../price/token-count.ts'
import type { ChannelRequest, WorkLimits } from './channel-request.ts'
import type { Translator } from './translator.ts'

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
  /** Absent: large requests are translated on this thread too. */
  readonly translator?: Translator
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
