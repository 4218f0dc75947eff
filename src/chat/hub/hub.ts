import type { JsonObject } from '../../domain/json-value.ts'
import type { ToolCalls, Usage } from '../../domain/usage.ts'

/**
 * The chat that every format is translated into and out of. It is nobody's wire format, and richer than each of them: what
 * one format can say and another cannot has a place here, and the encoder that finds no word for it gives a warning.
 * An absent field was not said; 0, '' and false are values.
 */

/**
 * Fields that only one format knows, under that format's name. They come back unharmed when the same format is written,
 * and are warned about when another is. A decoder collects them with `Fields.rest()`, so that new fields survive.
 */
export type Extras = Readonly<Record<string, JsonObject>>

type Extendable = { readonly extras?: Extras }

/** A proof made by one vendor that only the same vendor can check; to any other format it is worth nothing. */
export type Signature = { readonly format: string; readonly value: string }

/** «Keep the prompt up to here in the cache.» (anthropic, bedrock; without a ttl: the vendor's usual one) */
export type CacheMark = { readonly ttl?: string }

// --- Content ------------------------------------------------------------------------------------------------------

export type TextPart = Extendable & {
  readonly type: 'text'
  readonly text: string
  readonly citations?: readonly Citation[]
  readonly cache?: CacheMark
  /** gemini signs text as well */
  readonly signature?: Signature
}

/** What the model thought before it answered. */
export type ReasoningPart = Extendable & {
  readonly type: 'reasoning'
  /** Empty where the vendor gives out an encrypted form only. */
  readonly text: string
  readonly signature?: Signature
  /** anthropic: redacted thinking; responses: `encrypted_content` */
  readonly encrypted?: Signature
  /** responses: neighbours with the same id are the summaries of one item */
  readonly id?: string
}

/** The model declines, in words that formats with a field of its own keep apart from its answer. */
type RefusalPart = Extendable & { readonly type: 'refusal'; readonly text: string }

export type ToolCallPart = Extendable & {
  readonly type: 'toolCall'
  readonly id: string
  readonly name: string
  /** A JSON text, as the model wrote it; for a custom tool any text. */
  readonly arguments: string
  /** A tool that takes free text (openai-chat, responses). */
  readonly isCustom?: true
  readonly cache?: CacheMark
  /** gemini: without it the call is refused when it is sent back */
  readonly signature?: Signature
}

export type ToolResultPart = Extendable & {
  readonly type: 'toolResult'
  readonly callId: string
  /** gemini and ollama know results by the tool's name; `toolNames` finds it where it is not told. */
  readonly name?: string
  readonly content: readonly Part[]
  readonly isError?: true
  readonly isCustom?: true
  readonly cache?: CacheMark
}

export type MediaSource =
  | { readonly data: string }
  | { readonly url: string }
  /** Known only to the vendor where it was stored, in the format it was named in. */
  | { readonly fileId: string; readonly format: string }
  /** A document as plain text (anthropic, cohere). */
  | { readonly text: string }

export type MediaPart = Extendable & {
  readonly type: 'media'
  readonly kind: 'image' | 'audio' | 'video' | 'file'
  /** `data` is base64 */
  readonly source: MediaSource
  readonly mediaType?: string
  readonly name?: string
  /** How closely an image is looked at (openai-chat, responses, cohere). */
  readonly detail?: string
  /** A document that the answer shall cite, and what the model is told about it (anthropic, bedrock). */
  readonly isCited?: true
  readonly context?: string
  /** What an audio answer says (openai-chat). */
  readonly transcript?: string
  readonly cache?: CacheMark
}

/** A block that only one format has: a server tool's call and its result, say. */
type VendorPart = { readonly type: 'vendor'; readonly format: string; readonly value: JsonObject }

export type Part =
  | TextPart
  | ReasoningPart
  | RefusalPart
  | ToolCallPart
  | ToolResultPart
  | MediaPart
  | VendorPart

/** Where a statement of the answer comes from: a page, a stored file, or a document of the request. */
export type Citation = Extendable & {
  readonly url?: string
  /** A file that the vendor stores, perhaps in a container that its tools run in. */
  readonly file?: { readonly id: string; readonly container?: string }
  readonly title?: string
  /** The words relied on. */
  readonly quote?: string
  /** The stretch of the part's text that relies on it, in UTF-16 units. */
  readonly start?: number
  readonly end?: number
}

/** The alternatives to a token, likeliest first, and the token itself. */
export type TokenLogprob = {
  readonly token: string
  readonly logprob: number
  readonly bytes?: readonly number[]
  readonly top: readonly {
    readonly token: string
    readonly logprob: number
    readonly bytes?: readonly number[]
  }[]
}

// --- The request --------------------------------------------------------------------------------------------------

export type Message = Extendable & {
  /** `tool` holds nothing but results: all of those that answer one turn of the assistant. */
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool'
  readonly content: readonly Part[]
  readonly name?: string
}

export type FunctionTool = Extendable & {
  readonly type: 'function'
  readonly name: string
  readonly description?: string
  /** A JSON schema. */
  readonly parameters?: JsonObject
  readonly strict?: boolean
  readonly cache?: CacheMark
}

export type Tool =
  | FunctionTool
  /** Takes free text, perhaps of a grammar (openai-chat, responses). */
  | (Extendable & {
      readonly type: 'custom'
      readonly name: string
      readonly description?: string
      readonly grammar?: JsonObject
    })
  /** A tool that the vendor runs itself. */
  | { readonly type: 'vendor'; readonly format: string; readonly value: JsonObject }

export type ToolChoice = {
  readonly mode: 'auto' | 'none' | 'required'
  /** Only these of the tools. `required` with one name is that very tool. */
  readonly only?: readonly string[]
}

/** The form that the answer must have. */
export type Output =
  | { readonly type: 'json' }
  | {
      readonly type: 'schema'
      readonly schema: JsonObject
      readonly name?: string
      readonly description?: string
      readonly strict?: boolean
    }

export type Reasoning = {
  /** none, minimal, low, medium, high, xhigh, max; or a word of a vendor's own */
  readonly effort?: string
  /** Tokens to think with (anthropic, gemini). */
  readonly budget?: number
  /** The model decides how much (anthropic `adaptive`, gemini's budget of −1). */
  readonly isAdaptive?: true
  /** Whether and how the thoughts are told: `auto`, `concise`, `detailed`, `none` (responses, gemini, anthropic). */
  readonly summary?: string
  /** Thoughts are to come encrypted, to be handed back (responses; other vendors sign theirs anyhow). */
  readonly isReturned?: true
}

export type ChatRequest = Extendable & {
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly Message[]
  readonly tools?: readonly Tool[]
  readonly toolChoice?: ToolChoice
  readonly parallelTools?: boolean
  /** Tools were offered as `functions`, and the client knows one `function_call` an answer (openai-chat, its first form). */
  readonly isFirstForm?: true
  /** Tokens that each choice may have, its reasoning included. */
  readonly maxTokens?: number
  readonly temperature?: number
  readonly topP?: number
  readonly topK?: number
  readonly seed?: number
  readonly stop?: readonly string[]
  readonly presencePenalty?: number
  readonly frequencyPenalty?: number
  /** How many answers are wanted. */
  readonly choices?: number
  /** How many alternatives are told for each token; 0: only the token's own probability. */
  readonly logprobs?: number
  readonly output?: Output
  readonly reasoning?: Reasoning
  readonly verbosity?: string
  /** What the answer may consist of: text, image, audio (openai-chat, gemini). */
  readonly modalities?: readonly string[]
  readonly audio?: JsonObject
  /** gemini's `safetySettings`, cohere's `safety_mode` */
  readonly safety?: readonly { readonly category: string; readonly threshold: string }[]
  readonly user?: string
  readonly serviceTier?: string
  /** The client wants to be told the usage at the end of the stream (openai-chat). Upstreams are always asked for it. */
  readonly includeUsage?: boolean
}

// --- The answer ---------------------------------------------------------------------------------------------------

export type StopReason =
  | 'stop'
  | 'sequence'
  | 'length'
  /** The context window is full; the limit of the request was not reached (anthropic, bedrock, mistral). */
  | 'context'
  | 'tools'
  | 'filter'
  /** A long turn of server tools was interrupted and can be gone on with (anthropic). */
  | 'pause'

export type Stop = Extendable & {
  readonly reason: StopReason
  /** Which of the stop sequences it was (anthropic). */
  readonly sequence?: string
  /** Why it was filtered, in the vendor's words. */
  readonly explanation?: string
}

/** What went wrong, as far as it decides what becomes of the request. */
export type ErrorKind =
  | 'invalid'
  | 'context'
  | 'filtered'
  | 'auth'
  | 'permission'
  | 'notFound'
  | 'tooLarge'
  | 'rateLimit'
  /** Paid up: trying again does not help. */
  | 'quota'
  | 'timeout'
  | 'overloaded'
  /** The stream ended before its end. */
  | 'truncated'
  | 'server'

export type ChatError = {
  readonly kind: ErrorKind
  readonly message: string
  /** The vendor's own words for it, where it has any. */
  readonly type?: string
  readonly code?: string
  readonly param?: string
  readonly retryAfterS?: number
}

/**
 * An answer over time. Parts are numbered within a choice in the order they open, from 0. Text, reasoning, refusals and
 * tool calls open empty and grow by deltas; media and vendor parts open whole (streamed audio grows by `data`). Several
 * parts may be open at once. Every stream of events ends with exactly one `end` or one `error`.
 */
export type ChatEvent =
  | (Extendable & {
      readonly type: 'start'
      readonly id: string
      readonly model: string
      readonly createdS?: number
    })
  | { readonly type: 'open'; readonly choice: number; readonly part: number; readonly content: Part }
  | (Delta & { readonly type: 'delta'; readonly choice: number; readonly part: number })
  | { readonly type: 'close'; readonly choice: number; readonly part: number }
  | { readonly type: 'logprobs'; readonly choice: number; readonly tokens: readonly TokenLogprob[] }
  | { readonly type: 'finish'; readonly choice: number; readonly stop: Stop }
  /** The whole usage so far, never an increment: the last one told counts. */
  | { readonly type: 'usage'; readonly usage: Usage }
  /** The calls of the provider's own tools so far, never an increment; usage that follows may know more. */
  | { readonly type: 'providerTools'; readonly calls: ToolCalls }
  | { readonly type: 'error'; readonly error: ChatError }
  | { readonly type: 'end' }

/** What is added to an open part. */
export type Delta = {
  /** Goes on with a text, a reasoning, a refusal, the arguments of a call, the transcript of an audio. */
  readonly text?: string
  /** Base64 that goes on with an audio. */
  readonly data?: string
  readonly citation?: Citation
  readonly signature?: Signature
  readonly encrypted?: Signature
}

/** The same answer all at once; `answerOf` and `eventsOf` turn one into the other. */
export type ChatAnswer = Extendable & {
  readonly id: string
  readonly model: string
  readonly createdS?: number
  readonly choices: readonly Choice[]
  readonly usage?: Usage
  /** Calls of the provider's own tools that the answer shows, whether or not it has a usage. */
  readonly toolCalls?: ToolCalls
}

export type Choice = {
  readonly parts: readonly Part[]
  readonly stop: Stop
  readonly logprobs?: readonly TokenLogprob[]
}
