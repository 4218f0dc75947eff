import type { IdsAndClock } from '../../chat/hub/format.ts'
import type { Refusal } from '../../domain/errors.ts'
import type { Operation } from '../../domain/operation.ts'
import type { When } from '../../domain/price.ts'
import type { Settings } from '../../domain/setting.ts'
import type { ToolCount, Usage } from '../../domain/usage.ts'
import type { LostContent } from '../../domain/warning.ts'
import type { PromptText } from '../../metering/prompt-text.ts'
import type { FormatName, Provider, Values } from '../../providers/index.ts'
import type { NameRules } from '../../requests/field-rules.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { Member } from '../../wire/json-edit.ts'
import type { ErrorFormat } from '../answer/error-format.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form } from '../intake/form-content.ts'
import type { RequestTags } from '../intake/tags.ts'
import type { TokenCounter } from '../price/token-count.ts'
import type { ChannelRequest, WorkLimits } from './channel-request.ts'
import type { Translator } from './translator.ts'

/** Upper bounds of units other than tokens. */
export type WorkUnits = Partial<Pick<Usage, 'calls' | 'characters' | 'seconds' | 'images' | ToolCount>>

/** A request that its operation has parsed and checked. */
export type Work = {
  readonly model: string
  readonly isStream: boolean
  /** The client set `stream_options` itself. If the host rejects them, the client gets that error instead of a retry. */
  readonly hasStreamOptions?: boolean
  /** An upper bound of the input tokens, derived from the bytes of the text. */
  readonly inputTokens: number
  /** An estimate of the input tokens, for rate limits and for the charge if the provider reports no usage. */
  readonly countedInput: number
  /** The text of the prompt, to count its tokens instead of estimating them. */
  promptText?(): PromptText
  /** All text that may become prompt, and tokens beyond it: for a tighter bound if the quota does not cover the bytes. */
  boundText?(): { readonly text: string; readonly extra: number } | undefined
  /** An upper bound of the output tokens. `modelMaximum`: the model's maximum output by its price. */
  outputTokens(modelMaximum: number | undefined): number
  /**
   * The output limit that the client or the model's price (`modelMaximum`) sets; undefined if neither does. Absent:
   * `outputTokens` without a maximum.
   */
  outputLimit?(modelMaximum: number | undefined): number | undefined
  /** The longest audio in seconds that is plausible in a provider's usage; absent: the seconds of `units`. */
  readonly secondsLimit?: number
  /** Absent: one call. */
  readonly units?: WorkUnits
  /** The tools that the provider shall run; absent: the operation has none. */
  readonly tools?: RequestedTools
  /** Models that the provider may choose from, on channels that allow it. The most expensive one is held and billed. */
  readonly namedModels?: readonly string[]
  /** The price conditions of the request: properties of an image, or services of a chat. */
  readonly priceConditions?: When
  /** The usage if the provider reports none; absent: the counted tokens of one call. */
  counted?(outputTokens: number): Usage
  /** The estimated usage of an attempt without an answer; absent: the counted usage without output. */
  estimated?(): Usage
  /** Why a channel cannot take this request. If no channel can, the request is refused before the hold. */
  unfit?(channel: RelayChannel, sentModel: string): Refusal | undefined
  /** Content that the channel's format cannot express, if that is known before the request is encoded. */
  lostContent?(channel: RelayChannel, sentModel: string): LostContent | undefined
  /** Values of the placeholders in the channel's path. */
  placeholders?(channel: RelayChannel): Values | undefined
  /**
   * The request for a channel: the client's own bytes if nothing has to change. Asynchronous if a large body is
   * translated.
   */
  requestFor(
    channel: RelayChannel,
    sentModel: string,
    limits?: WorkLimits,
  ): ChannelRequest | Promise<ChannelRequest>
  /** For answers that are files: whether a file of this type is forwarded unchanged. */
  passes?(contentType: string): boolean
  /** The type of such a file, if the provider does not name it. */
  readonly fileType?: string
  /** A non-stream answer to a stream request is accepted. */
  readonly acceptsNonStream?: boolean
  /** The maximum size of an answer that is buffered; absent: 32 MiB. */
  readonly maxAnswerBytes?: number
  /** Answers the request without a provider, free of charge. */
  answer?(counter: Pick<TokenCounter, 'count'>): Promise<unknown>
  /** Equal for equal requests; for operations that support an `Idempotency-Key`. */
  digest?(): string | Promise<string>
  /** The client prefers a refusal to a request with parts left out (`x-sluice-strict`). */
  readonly isStrict?: true
  /** The client accepts that content is left out (`x-sluice-strict: false`). */
  readonly isLossy?: true
  /** Names and values that the client attached to the request. */
  readonly tags?: RequestTags
  /** Releases uploaded files and state on worker threads. */
  dispose?(): void
}

/** The work with other values of some members. The work may be an object of a class, so it is not spread. */
export const changedWork = <W extends Work>(work: W, changes: Partial<Work>): W =>
  Object.assign(Object.create(work), changes)

/** The parts of the gateway that an operation needs to read a request. */
export type ReadContext = {
  settings(): Settings
  isServed(model: string): boolean
  readonly idsAndClock: IdsAndClock
  /** Absent: large requests are translated on this thread too. */
  readonly translator?: Translator
}

/** One operation of the relay. The pipeline compares no operation by name. */
export type OperationSpec = {
  readonly operation: Operation
  readonly format: FormatName
  /** The format for a model of a provider, if there is a choice; absent: always `format`. */
  formatFor?(provider: Provider, model: string): FormatName | undefined
  /** The last segment of the path, if it differs from the one in the provider's file. */
  readonly sibling?: string
  /** The error format of its clients; absent: the common one. */
  readonly errorFormat?: ErrorFormat
  /** The spelling of member names in its requests; absent: snake case. */
  readonly names?: NameRules
  /** The operation needs only the lengths of long texts, and accepts a LongText in their place. */
  readonly skims?: true
  /** Absent: the operation takes no JSON. `members`: the positions of the body's members, if known already. */
  read?(
    parsed: Record<string, unknown>,
    bytes: Buffer,
    readContext: ReadContext,
    members?: readonly Member[],
  ): Work
  /** Absent: the operation takes no multipart/form-data. `dispose` of the work releases the form. */
  readForm?(form: Form, readContext: ReadContext): Work | Promise<Work>
}
