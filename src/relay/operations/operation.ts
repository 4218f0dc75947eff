import type { Usage } from '../../domain/usage.ts'
import type { PromptText } from '../../formats/openai/prompt-text.ts'
import type { StreamMeter } from '../../formats/openai/stream-meter.ts'
import type { TextSample } from '../../formats/openai/text-sample.ts'
import type { Format, Operation } from '../../providers/index.ts'
import type { Member } from '../../wire/json-edit.ts'
import type { RelayChannel } from '../catalog.ts'

/** A whole answer, as its operation reads it. `fault` says why it is no answer of this kind. */
export type WholeReading = {
  readonly usage: Usage | undefined
  readonly outputBytes: number
  /** How the output begins, where it has to be counted. */
  readonly sample?: TextSample | undefined
  readonly fault?: string
}

export type { StreamMeter }

/** A request that its operation has read and checked. */
export type Work = {
  readonly model: string
  readonly isStream: boolean
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
  /** The body for a channel: the client's own bytes wherever nothing has to change. */
  dress(channel: RelayChannel, sentModel: string): Buffer
  /** Turns the provider's answer into what the client asked for, where those differ. */
  undress?(body: Buffer): Buffer
  readWhole(body: Buffer, channel: RelayChannel): WholeReading
  meter(channel: RelayChannel): StreamMeter
}

/** One thing the relay can be asked for. The walk learns nothing about any of them. */
export type OperationSpec = {
  readonly operation: Operation
  readonly format: Format
  /** It needs no more of long texts than how long they are, and may be given a LongText in their place. */
  readonly skims?: true
  /** `members`: those of the body, where they are known already. */
  read(parsed: Record<string, unknown>, bytes: Buffer, members?: readonly Member[]): Work
}
