import type { IncomingHttpHeaders } from 'node:http'
import type { Jobs } from '../jobs.ts'
import type { ProviderError } from '../refusal.ts'

/** A request as a format sees it: no sockets, no clock. */
export type Inquiry = {
  /** Unique among all runs of the simulator; formats put their own prefix before it. */
  readonly id: string
  readonly time: Date
  readonly headers: IncomingHttpHeaders
  /** What the groups of the route's path matched. */
  readonly params: readonly string[]
  /** The body's text; empty where the method has none, and where it is a form. */
  readonly body: string
  /** Its bytes. */
  readonly bytes: Buffer
  /** What stands after the question mark. */
  readonly query: URLSearchParams
  readonly key: string
  /** The path as it was asked for. */
  readonly path: string
  readonly jobs: Jobs
}

/** What a request costs apart from the answer's tokens, for the count file. */
export type Bill = {
  readonly id: string
  readonly model: string
  readonly promptTokens: number
  /** What else is charged: characters, seconds, pictures, searches. */
  readonly units?: Readonly<Record<string, number>>
}

/** A piece of a stream that leaves at once, and how many tokens of the answer it carries. */
export type StreamFrame = { readonly data: string | Uint8Array; readonly tokens: number }

/** What to send back. How fast, to whom and whether they still listen is not the format's business. */
export type Reply =
  | { readonly kind: 'free'; readonly body: string }
  | {
      readonly kind: 'whole'
      readonly body: string
      readonly tokens: number
      readonly bill: Bill
      /** JSON, unless it says otherwise. */
      readonly contentType?: string
      /** Makes it so: called unless a fault stands for a refusal. */
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
      /** Of a file whose length is told beforehand. */
      readonly length?: number
      /** Taken one by one as the client reads, so that nothing is generated for a client that has left. */
      readonly frames: Iterable<StreamFrame>
      readonly bill: Bill
    }

export type ProtocolRoute = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: RegExp
  readonly answer: (inquiry: Inquiry) => Reply
}

/** An error that the provider is made to have, as opposed to a refusal that the request deserves. */
export type Failure = {
  readonly status: number
  readonly message: string
  /** The account behind the key is used up. */
  readonly isOutOfQuota?: boolean
}

/** Reads the JSON of a piece of a stream, and writes it again in the same place. */
export type Framing = {
  read(data: string | Uint8Array): Readonly<Record<string, unknown>> | undefined
  write(json: Readonly<Record<string, unknown>>, before: string | Uint8Array): string | Uint8Array
}

/** A provider's protocol: where it carries the key, which paths it has, how it words a refusal and a failure. */
export type Protocol = {
  readonly name: string
  readonly keyOf: (headers: IncomingHttpHeaders) => string | undefined
  readonly routes: readonly ProtocolRoute[]
  readonly encodeRefusal: (refusal: ProviderError) => string
  readonly encodeFailure: (failure: Failure) => string
  /** Headers of a refusal or a failure beside the body's. */
  readonly failureHeaders?: (status: number) => Readonly<Record<string, string>>
  /** A failure in the middle of a stream; absent: data like any other. */
  readonly errorEvent?: (body: string) => string | Uint8Array
  /** How the pieces of a stream hold their JSON; absent: as server-sent events. */
  readonly framing?: Framing
}
