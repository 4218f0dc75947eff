import type { IdsAndClock } from '../../chat/hub/format.ts'
import type { Refusal } from '../../domain/errors.ts'
import type { Operation } from '../../domain/operation.ts'
import type { When } from '../../domain/price.ts'
import type { Settings } from '../../domain/setting.ts'
import type { ToolCount, Usage } from '../../domain/usage.ts'
import type { PromptText } from '../../metering/prompt-text.ts'
import type { FormatName, Provider, Values } from '../../providers/index.ts'
import type { NameRules } from '../../requests/field-rules.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { Member } from '../../wire/json-edit.ts'
import type { ErrorFormat } from '../answer/error-format.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form } from '../intake/form.ts'
import type { TokenCounter } from '../price/token-count.ts'
import type { ChannelRequest, WorkLimits } from './channel-request.ts'
import type { Translator } from './translator.ts'

/** Upper bounds of the counts other than tokens. */
export type WorkUnits = Partial<Pick<Usage, 'calls' | 'characters' | 'seconds' | 'images' | ToolCount>>

/** A request that its operation has read and checked. */
export type Work = {
  readonly model: string
  readonly isStream: boolean
  /** The client set `stream_options` itself, so that a host that refuses them refuses the client's own request. */
  readonly hasStreamOptions?: boolean
  /** An upper bound of the input tokens; text counts by its bytes. */
  readonly inputTokens: number
  /** An estimate of the input tokens, for rate limits and for the charge if the provider reports no usage. */
  readonly countedInput: number
  /** The text of the prompt, for a token count in place of the estimate. */
  promptText?(): PromptText
  /** All text that could become prompt, and tokens beyond it: for a closer bound if the bytes are too many. */
  boundText?(): { readonly text: string; readonly extra: number } | undefined
  /** An upper bound of the output tokens, given the model's longest answer by its price. */
  outputTokens(modelMaximum: number | undefined): number
  /**
   * Output tokens that the client or the model's price (`modelMaximum`) allows; undefined if neither sets a limit. Absent:
   * `outputTokens` without a maximum.
   */
  outputLimit?(modelMaximum: number | undefined): number | undefined
  /** The longest plausible audio that a provider may report, in seconds; absent: those of `units`. */
  readonly secondsLimit?: number
  /** Absent: one call. */
  readonly units?: WorkUnits
  /** The tools that the provider is asked to run; absent: the operation has none. */
  readonly tools?: RequestedTools
  /** Models that the provider may choose from, on channels that allow it: the dearest is held for and billed. */
  readonly namedModels?: readonly string[]
  /** The requested properties of a picture, and the requested services of a chat. */
  readonly asked?: When
  /** The usage if the provider reports none; absent: the counted tokens of one call. */
  counted?(outputTokens: number): Usage
  /** The possible usage of an attempt without an answer; absent: what is counted without any output. */
  estimated?(): Usage
  /** Why a channel cannot take this request. A request that no channel can take is refused before the hold. */
  unfit?(channel: RelayChannel, sentModel: string): Refusal | undefined
  /** Values for placeholders in the channel's path. */
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
  /** For answers that are files: whether one of this type passes through as it is. */
  passes?(contentType: string): boolean
  /** The type of such a file, if the provider does not name it. */
  readonly fileType?: string
  /** A whole answer is accepted although a stream was requested. */
  readonly isWholeTaken?: boolean
  /** The longest answer that is received whole; absent: 32 MiB. */
  readonly maxAnswerBytes?: number
  /** Answers the request without a provider, free of charge. */
  answer?(counter: Pick<TokenCounter, 'count'>): Promise<unknown>
  /** Equal for equal requests: for operations that honour an `Idempotency-Key`. */
  digest?(): string | Promise<string>
  /** The client prefers a refusal to a request with something left out (`x-sluice-strict`). */
  readonly isStrict?: boolean
  /** Releases uploaded files and the state on threads. */
  dispose?(): void
}

/** What an operation needs of the gateway to read a request. */
export type ReadContext = {
  settings(): Settings
  isServed(model: string): boolean
  readonly idsAndClock: IdsAndClock
  /** Absent: large requests are translated on this thread too. */
  readonly translator?: Translator
}

/** One operation of the relay. The handling of requests knows none of them by name. */
export type OperationSpec = {
  readonly operation: Operation
  readonly format: FormatName
  /** The format for a provider's model, if there is a choice; absent: always `format`. */
  formatFor?(provider: Provider, model: string): FormatName | undefined
  /** The last part of the path, if it differs from the one in the provider's file. */
  readonly sibling?: string
  /** The error format of its clients; absent: the common one. */
  readonly errorFormat?: ErrorFormat
  /** How its requests name their members; absent: in snake case. */
  readonly names?: NameRules
  /** It needs only the lengths of long texts, and takes a LongText in their place. */
  readonly skims?: true
  /** Absent: it takes no JSON. `members`: those of the body, if they have been found already. */
  read?(
    parsed: Record<string, unknown>,
    bytes: Buffer,
    readContext: ReadContext,
    members?: readonly Member[],
  ): Work
  /** Absent: it takes no multipart/form-data. `dispose` releases the form. */
  readForm?(form: Form, readContext: ReadContext): Work | Promise<Work>
}
