import type { JsonObject } from '../../domain/json-value.ts'
import type { ToolCalls, Usage } from '../../domain/usage.ts'

/**
 * The chat that every format is translated into and out of. It is no vendor's wire format and has a place for everything that
 * one of the formats can express. An encoder whose format lacks such a field gives a warning.
 * An absent field was not in the request; 0, '' and false are values.
 */

/**
 * Fields that only one format knows, under that format's name. They are written back unchanged in the same format,
 * and reported as a warning in another one. A decoder collects them with `Fields.rest()`, so that new fields survive.
 */
export type Extras = Readonly<Record<string, JsonObject>>

type Extendable = { readonly extras?: Extras }

/** A signature that only the vendor that made it can check; other formats cannot use it. */
export type Signature = { readonly format: string; readonly value: string }

/** Asks the vendor to cache the prompt up to here (anthropic, bedrock; without a ttl: the vendor's default). */
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

/** The model's reasoning before its answer. */
export type ReasoningPart = Extendable & {
  readonly type: 'reasoning'
  /** Empty where the vendor returns only the encrypted form. */
  readonly text: string
  readonly signature?: Signature
  /** anthropic: redacted thinking; responses: `encrypted_content` */
  readonly encrypted?: Signature
  /** responses: neighbours with the same id are the summaries of one item */
  readonly id?: string
}

/** The text with which the model refuses; some formats have a field for it beside the answer. */
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
  /** gemini and ollama identify results by the tool's name; `toolNames` finds it where it is absent. */
  readonly name?: string
  readonly content: readonly Part[]
  readonly isError?: true
  readonly isCustom?: true
  readonly cache?: CacheMark
}

export type MediaSource =
  | { readonly data: string }
  | { readonly url: string }
  /** An id that only the vendor that stores the file knows, in that vendor's format. */
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
  /** The level of detail in which an image is processed (openai-chat, responses, cohere). */
  readonly detail?: string
  /** A document that the answer shall cite, and its context for the model (anthropic, bedrock). */
  readonly isCited?: true
  readonly context?: string
  /** The transcript of an audio answer (openai-chat). */
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
  /** The quoted text. */
  readonly quote?: string
  /** The range of the part's text that the citation supports, in UTF-16 units. */
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
  /** none, minimal, low, medium, high, xhigh, max; or a vendor's own value */
  readonly effort?: string
  /** The thinking budget in tokens (anthropic, gemini). */
  readonly budget?: number
  /** The model decides how much (anthropic `adaptive`, gemini's budget of −1). */
  readonly isAdaptive?: true
  /** Whether and how reasoning is returned: `auto`, `concise`, `detailed`, `none` (responses, gemini, anthropic). */
  readonly summary?: string
  /** Reasoning is returned encrypted, to be sent back (responses; other vendors sign theirs anyway). */
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
  /** The number of answers. */
  readonly choices?: number
  /** The number of alternatives for each token; 0: only the token's own probability. */
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
  /** The client asked for the usage at the end of the stream (openai-chat). The gateway always asks the provider for it. */
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
  /** A long turn of server tools was paused and can be continued (anthropic). */
  | 'pause'

export type Stop = Extendable & {
  readonly reason: StopReason
  /** Which of the stop sequences it was (anthropic). */
  readonly sequence?: string
  /** Why it was filtered, in the vendor's words. */
  readonly explanation?: string
}

/** The kind of an error, as far as retries and statuses depend on it. */
export type ErrorKind =
  | 'invalid'
  | 'context'
  | 'filtered'
  | 'auth'
  | 'permission'
  | 'notFound'
  | 'tooLarge'
  | 'rateLimit'
  /** The quota is used up: a retry does not help. */
  | 'quota'
  | 'timeout'
  | 'overloaded'
  /** The stream ended without its terminator. */
  | 'truncated'
  | 'server'

export type ChatError = {
  readonly kind: ErrorKind
  readonly message: string
  /** The vendor's own code for it. */
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
  /** The whole usage so far, never an increment: the last one counts. */
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
