import type { EncodeOptions } from '../chat/hub/format.ts'
import { OPERATIONS, type Operation } from '../domain/operation.ts'
import type { EmbeddingDialect } from '../media/embedding.ts'
import type { ImageDialect } from '../media/image.ts'
import type { ModerationDialect } from '../media/moderation.ts'
import type { RerankDialect } from '../media/rerank.ts'
import type { SpeechDialect, Voices } from '../media/speech.ts'
import type { TranscriptFormat, TranscriptionDialect } from '../media/transcript.ts'
import type { VideoDialect } from '../media/video.ts'

/**
 * The names of wire formats, as `/api/channel/types` presents them. `openai` is the common format of everything that is not
 * chat, `cohere` is also the rerank format of most rerankers, `native` is a format of the vendor, and `cosyvoice` is a second
 * one for speech: DashScope has two.
 */
export type FormatName =
  | 'openai-chat'
  | 'openai'
  | 'responses'
  | 'anthropic'
  | 'gemini'
  | 'bedrock'
  | 'cohere'
  | 'ollama'
  | 'native'
  | 'cosyvoice'

/**
 * The path of an operation: one path, or two if streaming has its own.
 *
 * Placeholders, replaced by `fill`: `{model}` is the model's name as one segment, `{+model}` the same with its slashes,
 * `{voice}` the voice of a speech request, `{method}` the method for one or several embeddings. Every other one is a field of
 * the channel (`fields`), or derived from the fields and the key (`placeholders`).
 *
 * In the `openai` format the path of `images` is that of generations, whose siblings are `edits` and `variations`; the path
 * of `videos` is the collection, so a job is at `/{id}` and its file at `/{id}/content`.
 */
export type Path = string | { readonly whole: string; readonly streamed: string }

/** The path of an operation in each format that the vendor offers, preferred first. */
export type Paths = { readonly [format in FormatName]?: Path }

/** The headers that carry a key. */
export type Auth = (key: string) => Readonly<Record<string, string>>

/** How a key is used that must not be sent itself: it signs each request, or it is exchanged for a token. */
export type KeyExchangeScheme = {
  /** For docs/providers.md. */
  readonly description: string
  /** Whether this scheme handles the key; any other key is sent by `auth`. */
  readonly takes: (key: string) => boolean
  /** The headers that sign a request. */
  readonly sign?: (
    key: string,
    values: Values,
    request: Unsigned,
  ) => Promise<Readonly<Record<string, string>>>
  /** The tokens that are sent as bearer tokens in place of keys. */
  readonly createTokens?: CreateTokens
}

export type TokenSource = {
  tokenFor(key: string): Promise<string>
  /** Drops a cached token that the provider rejected. */
  forget(key: string): void
}

/** Each gateway creates one source of tokens for a scheme. */
export type CreateTokens = (deps: {
  nowMs(): number
  /** Posts an HTML form over the gateway's own connections. */
  postForm(url: string, form: string): Promise<{ readonly status: number; readonly body: Buffer }>
  /** Why the gateway must not connect to a URL; undefined if it may. */
  refuseUrl(url: string): string | undefined
}) => TokenSource

/** A request with its final body, ready to be signed. */
export type Unsigned = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly at: Date
}

/** Signs one request with its key. */
export type Signer = (request: Unsigned) => Promise<Readonly<Record<string, string>>>

/**
 * A field of a channel that this vendor supports besides name, models and key. `name` is a key of the channel's `setting`,
 * except `base_url` and `openai_organization`, which are fields of the channel itself.
 */
export type ChannelField = {
  readonly name: string
  readonly label: string
  readonly help: string
  readonly required?: boolean
  readonly secret?: boolean
  /** The value if the channel leaves the field empty. */
  readonly fallback?: string
  /** The header that carries the value, for a field that is sent as a header. */
  readonly header?: string
}

/** The request for the list of models. */
export type ModelList = {
  readonly path: string
  /** For vendors that serve the list from another host; a channel's own `base_url` overrides both. */
  readonly baseUrl?: string
  /** Extracts the names from the parsed response; none if it is not a list of models. */
  readonly names: (body: unknown) => readonly string[]
}

/** Values of placeholders, by name. */
export type Values = Readonly<Record<string, string>>

/** The dialects for operations whose format differs from the common one. */
export type DialectOf = {
  readonly embeddings: EmbeddingDialect
  readonly speech: SpeechDialect
  readonly transcription: TranscriptionDialect
  readonly translation: TranscriptionDialect
  readonly moderation: ModerationDialect
  readonly rerank: RerankDialect
  readonly images: ImageDialect
  readonly videos: VideoDialect
}

/** A vendor's dialects, by the name of the format in its paths. */
export type Dialects = {
  readonly [operation in keyof DialectOf]?: { readonly [format in FormatName]?: DialectOf[operation] }
}

/** A vendor, as data. An absent key is a thing the vendor does not offer. */
export type Provider = { readonly [operation in Operation]?: Paths } & {
  readonly type: number
  readonly name: string
  /** The vendor's name in OpenTelemetry (`gen_ai.provider.name`); absent: its name in lower case. */
  readonly telemetryName?: string
  /** Absent: the vendor has no address of its own, so a channel must have a `base_url`. */
  readonly baseUrl?: string
  /** Absent: keys of this vendor are never sent themselves; see `exchange`. */
  readonly auth?: Auth
  readonly exchange?: KeyExchangeScheme
  /** Further headers of every call; the client and the channel may override them. */
  readonly headers?: Readonly<Record<string, string>>
  readonly models?: ModelList
  readonly fields?: readonly ChannelField[]
  /** Values derived from the key or other fields; they override those fields. */
  readonly placeholders?: (key: string, fields: Values) => Values
  /** The formats that a model supports, if they depend on its name. Absent: those of the operation's paths. */
  readonly formatsOfModel?: (model: string) => readonly FormatName[]
  /** Whether an error response concerns the key or its credit although its status does not show it. */
  readonly isKeyError?: (status: number, body: unknown) => boolean
  /** `reasoningOutside`: reasoning tokens are not included in `completion_tokens`. */
  readonly usage?: { readonly reasoningOutside: boolean }
  /** `max_tokens` limits the answer without its reasoning, which `completion_tokens` includes. */
  readonly limitsAnswerOnly?: true
  /** What the vendor's hosts accept or reject beyond the format, for chats translated to it. */
  readonly encoding?: Pick<EncodeOptions, 'omitReasoning' | 'keepCacheMarks' | 'dialect'>
  /** Further models that search the web, and charge for it, with every request. */
  readonly alwaysSearches?: RegExp
  /** Supports `max_tool_calls` in the Responses format. */
  readonly takesMaxToolCalls?: true
  /** Members to add to bodies of a format for this vendor; `undefined` removes a member. */
  readonly bodies?: { readonly [format in FormatName]?: Readonly<Record<string, unknown>> }
  readonly dialects?: Dialects
  /** Absent: any voice name is passed on. */
  readonly voices?: Voices
  /** The transcript formats that a model supports; absent: all five. */
  readonly transcripts?: (model: string) => readonly TranscriptFormat[]
  /** Whether a model always returns the images themselves and rejects `response_format`. */
  readonly picturesInside?: (model: string) => boolean
  /** Shows users what a key of this vendor looks like. */
  readonly keyHint: string
}

/** The operations that a vendor has a path for, in the order of `OPERATIONS`; `offersOf` has the supported ones. */
export function operationsOf(provider: Provider): Operation[] {
  return OPERATIONS.filter(operation => provider[operation] !== undefined)
}

/** The formats of this model for this operation, preferred first; empty if it is not offered. */
export function formatsFor(provider: Provider, operation: Operation, model: string): FormatName[] {
  const offered = formatsIn(provider[operation])
  const supported = provider.formatsOfModel?.(model)
  return supported === undefined ? offered : offered.filter(format => supported.includes(format))
}

/** The same vendor with only these chat formats: many compatible hosts support fewer. */
export function withChatFormats(provider: Provider, formats: unknown): Provider {
  if (!Array.isArray(formats) || formats.length === 0) return provider
  const chatPaths = Object.entries(provider.chat ?? {}).filter(([format]) => formats.includes(format))
  return { ...provider, chat: Object.fromEntries(chatPaths) }
}

/** The path for a whole or a streamed response. */
export function pathFor(path: Path, isStreamed: boolean): string {
  if (typeof path === 'string') return path
  return isStreamed ? path.streamed : path.whole
}

/** All paths of a vendor, including the model list. */
export function pathsOf(provider: Provider): string[] {
  const paths = operationsOf(provider).flatMap(operation => Object.values(provider[operation] ?? {}))
  const plain = paths.flatMap(path => (typeof path === 'string' ? [path] : [path.whole, path.streamed]))
  return provider.models === undefined ? plain : [...plain, provider.models.path]
}

function formatsIn(paths: Paths | undefined): FormatName[] {
  // The type of `Object.keys` does not say that the keys are formats.
  return Object.keys(paths ?? {}) as FormatName[]
}
