import type { JsonObject } from '../../domain/json-value.ts'
import type { ToolCalls, Usage } from '../../domain/usage.ts'

/**
 * The hub: the model of a chat that every format is translated into and out of. It is no vendor's wire format and can
 * express everything that one of the formats can. An encoder whose format lacks a field adds a warning. An absent field
 * was not in the request; 0, '' and false are values.
 */

/**
 * Fields that only one format has, under that format's name. An encoder of the same format writes them back unchanged, an
 * encoder of another one adds a warning. A decoder collects them with `Fields.rest()`, so that new fields survive.
 */
export type Extras = Readonly<Record<string, JsonObject>>

type Extendable = { readonly extras?: Extras }

/** A signature that only the vendor that created it can verify; other formats cannot use it. */
export type Signature = { readonly format: string; readonly value: string }

/** Requests that the vendor cache the prompt up to here (anthropic, bedrock). Without a ttl: the vendor's default. */
export type CacheMark = { readonly ttl?: string }

// --- Content ------------------------------------------------------------------------------------------------------

export type TextPart = Extendable & {
  readonly type: 'text'
  readonly text: string
  readonly citations?: readonly Citation[]
  readonly cache?: CacheMark
  /** gemini: text may be signed too */
  readonly signature?: Signature
}

/** The model's reasoning before its answer. */
export type ReasoningPart = Extendable & {
  readonly type: 'reasoning'
  /** Empty if the vendor returns the encrypted form only. */
  readonly text: string
  readonly signature?: Signature
  /** anthropic: redacted thinking; responses: `encrypted_content` */
  readonly encrypted?: Signature
  /** responses: adjacent parts with the same id are the summaries of one item */
  readonly id?: string
}

/** The text of the model's refusal; some formats have a separate field for it. */
type RefusalPart = Extendable & { readonly type: 'refusal'; readonly text: string }

export type ToolCallPart = Extendable & {
  readonly type: 'toolCall'
  readonly id: string
  readonly name: string
  /** JSON text as the model generated it; any text for a custom tool. */
  readonly arguments: string
  /** A call of a tool that takes free text (openai-chat, responses). */
  readonly isCustom?: true
  readonly cache?: CacheMark
  /** gemini: the vendor rejects the call in later turns without it */
  readonly signature?: Signature
}

export type ToolResultPart = Extendable & {
  readonly type: 'toolResult'
  readonly callId: string
  /** gemini and ollama identify results by the tool's name; if it is absent, `toolNames` looks it up. */
  readonly name?: string
  readonly content: readonly Part[]
  readonly isError?: true
  readonly isCustom?: true
  readonly cache?: CacheMark
}

export type MediaSource =
  | { readonly data: string }
  | { readonly url: string }
  /** The id of a file that a vendor stores, and that vendor's format. Other vendors do not know the id. */
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
  /** The answer shall cite this document; `context` describes it to the model (anthropic, bedrock). */
  readonly isCited?: true
  readonly context?: string
  /** The transcript of an audio answer (openai-chat). */
  readonly transcript?: string
  readonly cache?: CacheMark
}

/** A block that only one format has, such as the call and result of a server tool. */
type VendorPart = { readonly type: 'vendor'; readonly format: string; readonly value: JsonObject }

export type Part =
  | TextPart
  | ReasoningPart
  | RefusalPart
  | ToolCallPart
  | ToolResultPart
  | MediaPart
  | VendorPart

/** The source of a statement in the answer: a web page, a stored file, or a document of the request. */
export type Citation = Extendable & {
  readonly url?: string
  /** A file that the vendor stores, perhaps in a container of its tools. */
  readonly file?: { readonly id: string; readonly container?: string }
  readonly title?: string
  /** The quoted text. */
  readonly quote?: string
  /** The range of the part's text that the citation supports, in UTF-16 units. */
  readonly start?: number
  readonly end?: number
}

/** A token of the answer, and its alternatives, most likely first. */
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
  /** `tool`: only results, all of those for one assistant turn. */
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
  /** Takes free text, optionally constrained by a grammar (openai-chat, responses). */
  | (Extendable & {
      readonly type: 'custom'
      readonly name: string
      readonly description?: string
      /** As in the Responses format: `{ type, syntax, definition }`. */
      readonly grammar?: JsonObject
    })
  /** A tool that the vendor runs itself. */
  | { readonly type: 'vendor'; readonly format: string; readonly value: JsonObject }

export type ToolChoice = {
  readonly mode: 'auto' | 'none' | 'required'
  /** The model may call only these tools. `required` with one name forces that tool. */
  readonly only?: readonly string[]
}

/** The required format of the answer. */
export type Output =
  | { readonly type: 'json' }
  | {
      readonly type: 'schema'
      readonly schema: JsonObject
      readonly name?: string
      readonly description?: string
      readonly strict?: boolean
      /** The format of the client has no `strict`: its answers always fit the schema. */
      readonly isEnforced?: true
    }

export type Reasoning = {
  /** none, minimal, low, medium, high, xhigh, max; or a vendor's own value */
  readonly effort?: string
  /** The thinking budget in tokens (anthropic, gemini). */
  readonly budget?: number
  /** The model decides the budget (anthropic `adaptive`, gemini's budget of −1). */
  readonly isAdaptive?: true
  /** Whether and how reasoning is returned: `auto`, `concise`, `detailed`, `none` (responses, gemini, anthropic). */
  readonly summary?: string
  /** Reasoning is returned encrypted, so that the client can send it back (responses; other vendors always sign it). */
  readonly isReturned?: true
}

export type ChatRequest = Extendable & {
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly Message[]
  readonly tools?: readonly Tool[]
  readonly toolChoice?: ToolChoice
  readonly parallelTools?: boolean
  /** The client uses the deprecated `functions`, with at most one `function_call` per answer (openai-chat). */
  readonly isFirstForm?: true
  /** The output limit of each choice, including reasoning. */
  readonly maxTokens?: number
  readonly temperature?: number
  readonly topP?: number
  readonly topK?: number
  readonly seed?: number
  readonly stop?: readonly string[]
  readonly presencePenalty?: number
  readonly frequencyPenalty?: number
  /** The number of choices. */
  readonly choices?: number
  /** The number of alternatives per token; 0: only the token's own probability. */
  readonly logprobs?: number
  readonly output?: Output
  readonly reasoning?: Reasoning
  readonly verbosity?: string
  /** The types of output: text, image, audio (openai-chat, gemini). */
  readonly modalities?: readonly string[]
  readonly audio?: JsonObject
  /** gemini's `safetySettings`, cohere's `safety_mode` */
  readonly safety?: readonly { readonly category: string; readonly threshold: string }[]
  readonly user?: string
  readonly serviceTier?: string
  /** The client requests usage at the end of the stream (openai-chat). The gateway requests it from the provider anyway. */
  readonly includeUsage?: boolean
}

// --- The answer ---------------------------------------------------------------------------------------------------

export type StopReason =
  | 'stop'
  | 'sequence'
  | 'length'
  /** The context window is full, before the limit of the request was reached (anthropic, bedrock, mistral). */
  | 'context'
  | 'tools'
  | 'filter'
  /** The vendor paused a long turn of server tools; the client can continue it (anthropic). */
  | 'pause'

export type Stop = Extendable & {
  readonly reason: StopReason
  /** The stop sequence that was generated (anthropic). */
  readonly sequence?: string
  /** The vendor's explanation of the filter. */
  readonly explanation?: string
}

/** The kind of an error, which decides about retries and the status. */
export type ErrorKind =
  | 'invalid'
  | 'context'
  | 'filtered'
  | 'auth'
  | 'permission'
  | 'notFound'
  | 'tooLarge'
  | 'rateLimit'
  /** The quota is used up, so a retry does not help. */
  | 'quota'
  | 'timeout'
  | 'overloaded'
  /** The stream ended without its terminator. */
  | 'truncated'
  | 'server'

export type ChatError = {
  readonly kind: ErrorKind
  readonly message: string
  /** The vendor's own type and code. */
  readonly type?: string
  readonly code?: string
  readonly param?: string
  readonly retryAfterS?: number
}

/**
 * A streamed answer. Parts are numbered within a choice from 0, in the order in which they open. Text, reasoning,
 * refusals and tool calls open empty and grow by deltas; media and vendor parts open complete (streamed audio grows by
 * `data`). Several parts may be open at the same time. Every stream of events ends with exactly one `end` or one `error`.
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
  /** The total usage so far, never an increment: the last one counts. */
  | { readonly type: 'usage'; readonly usage: Usage }
  /** The total calls of the provider's own tools so far, never an increment. A later `usage` may be more complete. */
  | { readonly type: 'providerTools'; readonly calls: ToolCalls }
  | { readonly type: 'error'; readonly error: ChatError }
  | { readonly type: 'end' }

/** An addition to an open part. */
export type Delta = {
  /** Appended to a text, reasoning, refusal, the arguments of a call, or the transcript of audio. */
  readonly text?: string
  /** Base64 that is appended to audio. */
  readonly data?: string
  readonly citation?: Citation
  readonly signature?: Signature
  readonly encrypted?: Signature
}

/** The same answer without streaming; `eventsOf` converts it to events. */
export type ChatAnswer = Extendable & {
  readonly id: string
  readonly model: string
  readonly createdS?: number
  readonly choices: readonly Choice[]
  readonly usage?: Usage
  /** The calls of the provider's own tools in the answer, with or without usage. */
  readonly toolCalls?: ToolCalls
}

export type Choice = {
  readonly parts: readonly Part[]
  readonly stop: Stop
  readonly logprobs?: readonly TokenLogprob[]
}
