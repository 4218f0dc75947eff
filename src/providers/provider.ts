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
 * The wire formats Sluice knows by name. `openai` is the common shape of everything that is not chat,
 * `cohere` also the rerank shape that most rerankers share, `native` a shape of the vendor's own, `cosyvoice` a second one
 * for speech, where models of one vendor are asked in two.
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
 * Where an operation is asked for: one path, or two where a streamed answer has a path of its own.
 *
 * Placeholders, filled by `fill`: `{model}` is the model's name as one segment, `{+model}` the same with its
 * slashes kept, `{voice}` the voice a speech request names, `{method}` how many texts vectors are asked for; every other one is a field of the channel
 * (`fields`), or worked out from the fields and the key (`placeholders`).
 *
 * In the `openai` format the path of `images` is that of generations, whose siblings are `edits` and
 * `variations`; the path of `videos` is the collection, so a job is at `/{id}` and its file at `/{id}/content`.
 */
export type Path = string | { readonly whole: string; readonly streamed: string }

/** Path of an operation in each format the vendor offers for it, preferred first. */
export type Paths = { readonly [format in FormatName]?: Path }

/** Turns a key into the headers that carry it. */
export type Auth = (key: string) => Readonly<Record<string, string>>

/** How a key that must not travel itself is used. */
export type KeyExchangeScheme = {
  /**
   * `aws-sigv4`: `access|secret|region` signs each request for the service `bedrock`.
   * `google-service-account`: the JSON key file is traded for an OAuth token of the scope `cloud-platform`.
   * `access-secret-jwt`: `access|secret` makes a short HS256 token whose issuer is the access key.
   * `volcengine-v4`: `access|secret` signs each request for the service `cv`.
   */
  readonly scheme: 'aws-sigv4' | 'google-service-account' | 'access-secret-jwt' | 'volcengine-v4'
  /** Whether a key is of this kind; any other key goes through `auth`. */
  readonly takes: (key: string) => boolean
  /** The headers that prove a request made with such a key; absent: it is traded for what travels in its place. */
  readonly sign?: (
    key: string,
    values: Values,
    request: Unsigned,
  ) => Promise<Readonly<Record<string, string>>>
}

/** A request as it is about to leave, its body final: what a signature is made of. */
export type Unsigned = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly at: Date
}

/** Signs one request with the key it was made for. */
export type Signer = (request: Unsigned) => Promise<Readonly<Record<string, string>>>

/**
 * A field of a channel that this vendor needs or understands beyond name, models and key. `name` is a key of the
 * channel's `setting`, except `base_url` and `openai_organization`, which are fields of the channel itself.
 */
export type ChannelField = {
  readonly name: string
  readonly label: string
  readonly help: string
  readonly required?: boolean
  readonly secret?: boolean
  /** Stands in where the channel leaves the field empty. */
  readonly fallback?: string
  /** The header that carries it, for a field that travels as one. */
  readonly header?: string
}

/** How to ask the vendor which models it serves. */
export type ModelList = {
  readonly path: string
  /** Where the vendor keeps the list on another host than the rest; a channel's own `base_url` wins over both. */
  readonly baseUrl?: string
  /** Picks the names out of the parsed answer; anything that is not a list of models gives none. */
  readonly names: (body: unknown) => readonly string[]
}

/** Values of placeholders by name. */
export type Values = Readonly<Record<string, string>>

/** How an operation is worded that a vendor does not speak in the common shape. */
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

/** A vendor's dialects, by the format's name in its paths. */
export type Dialects = {
  readonly [operation in keyof DialectOf]?: { readonly [format in FormatName]?: DialectOf[operation] }
}

/** A vendor, as data. An absent key is a thing the vendor does not offer. */
export type Provider = { readonly [operation in Operation]?: Paths } & {
  readonly type: number
  readonly name: string
  /** Absent: the vendor has no address of its own, so a channel must bring its `base_url`. */
  readonly baseUrl?: string
  /** Absent: no key of this vendor is sent as it is; see `exchange`. */
  readonly auth?: Auth
  readonly exchange?: KeyExchangeScheme
  /** Headers of every call beside the key; one that the client or the channel sets wins. */
  readonly headers?: Readonly<Record<string, string>>
  readonly models?: ModelList
  readonly fields?: readonly ChannelField[]
  /** Values that the key or the other fields imply; they win over the fields they were made from. */
  readonly placeholders?: (key: string, fields: Values) => Values
  /** The formats a model can be asked in, where its name decides. Absent: those of the operation's paths. */
  readonly speaks?: (model: string) => readonly FormatName[]
  /** Whether an answer whose status says otherwise is in truth trouble of the key or its credit. */
  readonly isKeyTrouble?: (status: number, body: unknown) => boolean
  /** How its counts differ from the common meaning: reasoning stands beside `completion_tokens`, not inside it. */
  readonly usage?: { readonly reasoningOutside: boolean }
  /** What of a chat its hosts take or refuse beyond the format, where one is translated for them. */
  readonly encoding?: Pick<EncodeOptions, 'omitReasoning' | 'keepCacheMarks' | 'dialect'>
  /** Models that search the web with every request, and are charged for it, beside those that are known by their names. */
  readonly alwaysSearches?: RegExp
  /** Takes `max_tool_calls` in the Responses format, and keeps to it. */
  readonly takesMaxToolCalls?: true
  /** Members that a body of this format has here and nowhere else; one that is undefined it must not have. */
  readonly bodies?: { readonly [format in FormatName]?: Readonly<Record<string, unknown>> }
  readonly dialects?: Dialects
  /** Absent: any name of a voice is passed on. */
  readonly voices?: Voices
  /** The forms in which a model writes transcripts; absent: all five. */
  readonly transcripts?: (model: string) => readonly TranscriptFormat[]
  /** Whether a model gives pictures themselves in any case, and refuses a `response_format`. */
  readonly picturesInside?: (model: string) => boolean
  /** What a key of this vendor looks like, for people. */
  readonly keyHint: string
}

/** The operations a vendor has a path for, in the order of `OPERATIONS`; `offersOf` tells what is spoken. */
export function operationsOf(provider: Provider): Operation[] {
  return OPERATIONS.filter(operation => provider[operation] !== undefined)
}

/** The formats in which this model can be asked for this operation, preferred first; none: it cannot. */
export function formatsFor(provider: Provider, operation: Operation, model: string): FormatName[] {
  const offered = formatsIn(provider[operation])
  const spoken = provider.speaks?.(model)
  return spoken === undefined ? offered : offered.filter(format => spoken.includes(format))
}

/** The same vendor, asked for chats in these formats only: many hosts that are compatible with one speak fewer. */
export function speakingOnly(provider: Provider, formats: unknown): Provider {
  if (!Array.isArray(formats) || formats.length === 0) return provider
  const spoken = Object.entries(provider.chat ?? {}).filter(([format]) => formats.includes(format))
  return { ...provider, chat: Object.fromEntries(spoken) }
}

/** The path for a whole or a streamed answer. */
export function pathFor(path: Path, isStreamed: boolean): string {
  if (typeof path === 'string') return path
  return isStreamed ? path.streamed : path.whole
}

/** Every path a vendor has, model list included. */
export function pathsOf(provider: Provider): string[] {
  const paths = operationsOf(provider).flatMap(operation => Object.values(provider[operation] ?? {}))
  const plain = paths.flatMap(path => (typeof path === 'string' ? [path] : [path.whole, path.streamed]))
  return provider.models === undefined ? plain : [...plain, provider.models.path]
}

function formatsIn(paths: Paths | undefined): FormatName[] {
  // The keys of a `Paths` are formats; `Object.keys` alone does not say so.
  return Object.keys(paths ?? {}) as FormatName[]
}
