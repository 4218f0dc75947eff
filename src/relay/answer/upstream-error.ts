import { ERROR_KINDS } from '../../chat/hub/error.ts'
import type { ChatError, ErrorKind } from '../../chat/hub/hub.ts'
import { isObject, type JsonObject } from '../../domain/json-object.ts'
import { parsedOrNothing } from '../../wire/json-bounds.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { ChannelSecrets } from '../catalog/channel-secrets.ts'
import type { WholeResponse } from '../upstream/upstream.ts'
import type { RelayError } from './error-format.ts'

export type UpstreamError = RelayError & { readonly message: string }

const MAX_MESSAGE = 2_000
const HOST = /\bhttps?:\/\/[^\s"'<>]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g

type Said = { readonly secrets: Pick<ChannelSecrets, 'scrub'>; readonly baseUrl: string }

/** Longer ones are no value of a header, and no key. */
const MAX_SECRET = 8_192

/** As much of a text as is passed on. Half a secret at the edge would not be known as one, so the edge is left out. */
function scrubHead(text: string, { secrets }: Said): string {
  const head = text.slice(0, MAX_MESSAGE + MAX_SECRET)
  const clean = secrets.scrub(head)
  return head.length === text.length ? clean : clean.slice(0, -MAX_SECRET)
}

/** Secrets and hosts belong to the gateway, not to the client; the rest of what a provider says helps the caller. */
export function withoutSecrets(text: string, channel: Said): string {
  let clean = scrubHead(text, channel)
  const { hostname } = URL.parse(channel.baseUrl) ?? { hostname: '' }
  if (hostname !== '') clean = clean.replaceAll(hostname, '[address]')
  return clean.replace(HOST, '[address]').slice(0, MAX_MESSAGE)
}

const objectOf = (value: unknown): JsonObject => (isObject(value) ? value : {})

const textIn = (value: unknown) => (typeof value === 'string' ? value : undefined)

const parse = (body: Buffer): unknown => parsedOrNothing(body.toString('utf8'))

/**
 * What a provider refused, in the common shape (docs/reference/errors.md: Provider errors). `error` is the
 * same as its format tells it: some say what it is where nobody else would look.
 */
export const upstreamError = (
  { status, body }: WholeResponse,
  channel: RelayChannel,
  error?: ChatError,
): UpstreamError => ({
  ...presentError(
    {
      parsed: parse(body),
      status,
      otherwise: `the provider answered ${status}`,
      type: error?.type ?? 'invalid_request_error',
      error,
    },
    channel,
  ),
  kind: error?.kind,
})

/** What a provider says went wrong inside a stream: the value of its `error`, or plain words. */
export const upstreamErrorEvent = (error: unknown, channel: RelayChannel): UpstreamError => ({
  ...presentError(
    { parsed: { error }, status: 200, otherwise: 'the provider reported an error', type: 'upstream_error' },
    channel,
  ),
  kind: kindOf(error),
})

/** Where it was read in the hub's words, it is known what it comes to. */
function kindOf(error: unknown): ErrorKind | undefined {
  const kind = textIn(objectOf(error).kind) ?? ''
  return Object.hasOwn(ERROR_KINDS, kind) ? (kind as ErrorKind) : undefined
}

/** What the provider said, and what is said where it left something out. */
type Words = {
  readonly parsed: unknown
  readonly status: number
  readonly otherwise: string
  readonly type: string
  readonly error?: ChatError | undefined
}

/** Clients look for some troubles by the common word, which most vendors have none for. */
function codeOf(code: unknown, status: number, error: ChatError | undefined): unknown {
  const isSilent = code === null || code === status
  const meant = isSilent && error ? ERROR_KINDS[error.kind] : {}
  return 'code' in meant ? meant.code : code
}

function presentError(
  { parsed, status, otherwise, type, error }: Words,
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
