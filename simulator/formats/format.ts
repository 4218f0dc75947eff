import type { IncomingHttpHeaders } from 'node:http'
import type { Jobs } from '../jobs.ts'
import type { ProviderError } from '../provider-error.ts'

/** A request as a protocol sees it, without sockets and clock. */
export type Inquiry = {
  /** Unique among all runs of the simulator; protocols add their own prefix. */
  readonly id: string
  readonly time: Date
  readonly headers: IncomingHttpHeaders
  /** The matched groups of the route's path. */
  readonly params: readonly string[]
  /** The body as text; empty for methods without a body and for forms. */
  readonly body: string
  /** The body as bytes. */
  readonly bytes: Buffer
  /** The query string. */
  readonly query: URLSearchParams
  readonly key: string
  /** The path of the request. */
  readonly path: string
  readonly jobs: Jobs
}

/** The charges of a request besides the answer's tokens, for the count file. */
export type Bill = {
  readonly id: string
  readonly model: string
  readonly promptTokens: number
  /** Further charges: characters, seconds, images, searches. */
  readonly units?: Readonly<Record<string, number>>
}

/** A chunk of a stream that is sent at once, and the number of answer tokens in it. */
export type StreamFrame = { readonly data: string | Uint8Array; readonly tokens: number }

/** The response. Pace and connection are handled elsewhere. */
export type Reply =
  | { readonly kind: 'free'; readonly body: string }
  | {
      readonly kind: 'whole'
      readonly body: string
      readonly tokens: number
      readonly bill: Bill
      /** Default: JSON. */
      readonly contentType?: string
      /** Commits the job; not called if a fault replaces the response by an error. */
      take?(): void
    }
  | {
      readonly kind: 'file'
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      readonly body: Buffer
    }
  | {
      readonly kind: 'stream'
      readonly contentType: string
      /** The content length of a file. */
      readonly length?: number
      /** Generated as the client reads, so that nothing is generated for a client that has disconnected. */
      readonly frames: Iterable<StreamFrame>
      readonly bill: Bill
    }

export type ProtocolRoute = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: RegExp
  readonly answer: (inquiry: Inquiry) => Reply
}

/** An error that a fault causes, as opposed to an error in the request. */
export type Failure = {
  readonly status: number
  readonly message: string
  /** The account has no credit. */
  readonly isOutOfQuota?: boolean
}

/** Reads the JSON of a stream chunk and writes it back. */
export type Framing = {
  read(data: string | Uint8Array): Readonly<Record<string, unknown>> | undefined
  write(json: Readonly<Record<string, unknown>>, before: string | Uint8Array): string | Uint8Array
}

/** A provider's protocol: where the key is, the paths, and the format of errors. */
export type Protocol = {
  readonly name: string
  readonly keyOf: (headers: IncomingHttpHeaders) => string | undefined
  readonly routes: readonly ProtocolRoute[]
  readonly encodeRefusal: (refusal: ProviderError) => string
  readonly encodeFailure: (failure: Failure) => string
  /** Further headers of an error. */
  readonly failureHeaders?: (status: number) => Readonly<Record<string, string>>
  /** An error in the middle of a stream; absent: ordinary data. */
  readonly errorEvent?: (body: string) => string | Uint8Array
  /** How stream chunks contain their JSON; absent: as server-sent events. */
  readonly framing?: Framing
}
