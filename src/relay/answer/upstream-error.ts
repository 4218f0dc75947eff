import { ERROR_KINDS } from '../../chat/hub/error.ts'
import type { ChatError, ErrorKind } from '../../chat/hub/hub.ts'
import { isObject, type JsonObject } from '../../domain/json-object.ts'
import { parsedOrNothing } from '../../wire/json-bounds.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { ChannelSecrets } from '../catalog/channel-secrets.ts'
import type { BufferedResponse } from '../upstream/exchange.ts'
import type { RelayError } from './error-format.ts'

export type UpstreamError = RelayError & { readonly message: string }

const MAX_MESSAGE = 2_000
const HOST = /\bhttps?:\/\/[^\s"'<>]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g

type ErrorChannel = { readonly secrets: Pick<ChannelSecrets, 'scrub'>; readonly baseUrl: string }

/** No header value and no key is longer. */
const MAX_SECRET = 8_192

/** The forwarded beginning of a text. A secret cut off at its end could not be recognized, so the end is dropped. */
function scrubHead(text: string, { secrets }: ErrorChannel): string {
  const head = text.slice(0, MAX_MESSAGE + MAX_SECRET)
  const clean = secrets.scrub(head)
  return head.length === text.length ? clean : clean.slice(0, -MAX_SECRET)
}

/** Removes secrets and hosts of the gateway; the rest of a provider's message helps the client. */
export function withoutSecrets(text: string, channel: ErrorChannel): string {
  let clean = scrubHead(text, channel)
  const { hostname } = URL.parse(channel.baseUrl) ?? { hostname: '' }
  if (hostname !== '') clean = clean.replaceAll(hostname, '[address]')
  return clean.replace(HOST, '[address]').slice(0, MAX_MESSAGE)
}

const objectOf = (value: unknown): JsonObject => (isObject(value) ? value : {})

const textIn = (value: unknown) => (typeof value === 'string' ? value : undefined)

const parse = (body: Buffer): unknown => parsedOrNothing(body.toString('utf8'))

/**
 * The error of a provider in the common format (docs/reference/errors.md: Provider errors). `error` is the same error
 * decoded by its format: some formats report the kind in places of their own.
 */
export const upstreamError = (
  { status, body }: BufferedResponse,
  channel: RelayChannel,
  error?: ChatError,
): UpstreamError => ({
  ...presentError(
    {
      parsed: parse(body),
      status,
      otherwise: `The provider returned status ${status}.`,
      type: error?.type ?? 'invalid_request_error',
      error,
    },
    channel,
  ),
  kind: error?.kind,
})

/** An error that a provider reports inside a stream: the value of its `error`, or plain text. */
export const upstreamErrorEvent = (error: unknown, channel: RelayChannel): UpstreamError => ({
  ...presentError(
    { parsed: { error }, status: 200, otherwise: 'The provider reported an error.', type: 'upstream_error' },
    channel,
  ),
  kind: kindOf(error),
})

/** An error that the hub decoded has a kind. */
function kindOf(error: unknown): ErrorKind | undefined {
  const kind = textIn(objectOf(error).kind) ?? ''
  return Object.hasOwn(ERROR_KINDS, kind) ? (kind as ErrorKind) : undefined
}

/** The provider's error, and defaults for its missing members. */
type ErrorParts = {
  readonly parsed: unknown
  readonly status: number
  readonly otherwise: string
  readonly type: string
  readonly error?: ChatError | undefined
}

/** Clients recognize some errors by a common code, which most vendors do not send. */
function codeOf(code: unknown, status: number, error: ChatError | undefined): unknown {
  const hasNoCode = code === null || code === status
  const kindFields = hasNoCode && error ? ERROR_KINDS[error.kind] : {}
  return 'code' in kindFields ? kindFields.code : code
}

function presentError(
  { parsed, status, otherwise, type, error }: ErrorParts,
  channel: RelayChannel,
): UpstreamError {
  const outer = objectOf(parsed)
  const inner = objectOf(outer.error)
  const words =
    textIn(inner.message) ??
    textIn(outer.message) ??
    textIn(outer.error) ??
    textIn(outer.detail) ??
    error?.message ??
    otherwise
  const message = withoutSecrets(words, channel)
  const clean = (value: unknown) => (typeof value === 'string' ? withoutSecrets(value, channel) : undefined)
  const code = codeOf(inner.code ?? outer.code ?? null, status, error)
  return {
    status,
    message,
    body: {
      error: {
        message,
        type: clean(inner.type) ?? clean(outer.type) ?? withoutSecrets(type, channel),
        param: clean(inner.param) ?? null,
        code: typeof code === 'number' ? code : (clean(code) ?? null),
      },
    },
  }
}
