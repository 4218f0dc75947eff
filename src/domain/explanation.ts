import type { RelayCode } from './errors.ts'

/** What decided about a request. */
export const RULES = [
  'none',
  'authentication',
  'token_limit',
  'rate_limit',
  'quota',
  'price',
  'routing',
  'provider',
  'request',
  'client',
  'gateway',
] as const
export type Rule = (typeof RULES)[number]

type CodeExplanation = { readonly rule: Rule; readonly why: string }

const INVALID_REQUEST = 'The request itself is not valid, so another channel would reject it too.'
const CHANGE_REQUEST = { rule: 'request', why: INVALID_REQUEST } as const

/** Why the gateway answers with a code, in one sentence. */
const CODES: Readonly<Record<RelayCode, CodeExplanation>> = {
  invalid_api_key: { rule: 'authentication', why: 'The gateway did not accept the token of the request.' },
  cross_site_refused: {
    rule: 'authentication',
    why: 'A browser sent the request from another site, which is not allowed with the cookie of the console.',
  },
  ip_not_allowed: {
    rule: 'token_limit',
    why: 'The token has a list of allowed addresses, and the address of the client is not in it.',
  },
  model_not_allowed: { rule: 'token_limit', why: 'The token may use only the models in its list.' },
  rate_limit_exceeded: {
    rule: 'rate_limit',
    why: 'The token or its user reached a limit on requests, tokens or concurrency.',
  },
  insufficient_quota: {
    rule: 'quota',
    why: 'Before it sends a request, the gateway holds the most that the request can cost.',
  },
  model_not_priced: {
    rule: 'price',
    why: 'A model without a price cannot be charged, so its requests are rejected.',
  },
  model_not_found: {
    rule: 'routing',
    why: 'No enabled channel listed the model, and no alias had its name.',
  },
  no_channel_available: {
    rule: 'routing',
    why: 'Channels for the model exist, but none of them could take the request at that time.',
  },
  upstream_rate_limited: { rule: 'provider', why: 'The providers of all tried channels limit their rate.' },
  upstream_error: { rule: 'provider', why: 'All tried channels failed, and no other channel was left.' },
  upstream_timeout: { rule: 'provider', why: 'The providers of all tried channels took too long.' },
  not_found: { rule: 'request', why: 'The gateway has no route with this path.' },
  method_not_allowed: { rule: 'request', why: 'The route does not support this HTTP method.' },
  request_timeout: { rule: 'client', why: 'The client did not send the whole request, or it disconnected.' },
  invalid_json: CHANGE_REQUEST,
  missing_parameter: CHANGE_REQUEST,
  invalid_parameter: CHANGE_REQUEST,
  unsupported_media_type: CHANGE_REQUEST,
  unsupported_content: {
    rule: 'request',
    why: 'No channel of the model accepts an image, audio, file or other content of the request.',
  },
  request_too_large: { rule: 'request', why: 'The body is larger than the gateway accepts.' },
  idempotency_conflict: {
    rule: 'request',
    why: 'Another request used the same Idempotency-Key with another body, or is still running.',
  },
  thread_not_found: {
    rule: 'request',
    why: 'The gateway does not know the conversation that the request continues.',
  },
  video_not_found: { rule: 'request', why: 'There is no such video job, or it belongs to another user.' },
  video_not_ready: { rule: 'request', why: 'The provider is still generating the video.' },
  video_expired: { rule: 'provider', why: 'The provider no longer has the video.' },
  internal_error: {
    rule: 'gateway',
    why: 'The gateway itself failed. Its log has a line with the same request ID.',
  },
  ledger_unavailable: {
    rule: 'gateway',
    why: 'The gateway could not reach its store or write its journal, so it accepted no request.',
  },
  overloaded: {
    rule: 'gateway',
    why: 'The gateway had no memory, disk space or connections left. Its log names the setting to change.',
  },
  shutting_down: { rule: 'gateway', why: 'The gateway was stopping or restarting.' },
}

const isRelayCode = (code: string): code is RelayCode => Object.hasOwn(CODES, code)

/** A code of the relay's error table in a text; undefined if it contains none. */
export const codeIn = (text: string): RelayCode | undefined =>
  text.match(/[a-z]+(?:_[a-z]+)+/g)?.find(isRelayCode)

/** Explains a code of a log row: one of the relay's own, or `upstream_400` for an error of the provider. */
export function explainCode(code: string): CodeExplanation {
  if (isRelayCode(code)) return CODES[code]
  return code === 'upstream_404' ? UNKNOWN_UPSTREAM : REFUSED_UPSTREAM
}

const UNKNOWN_UPSTREAM = {
  rule: 'provider',
  why: 'The provider does not know the model, or what the request refers to.',
} as const
const REFUSED_UPSTREAM = {
  rule: 'provider',
  why: 'The provider refused the request itself, so no other channel was tried.',
} as const

/** What a person can do so that the next such request succeeds. */
export const ACTIONS = [
  'set_price',
  'add_credit',
  'raise_token_quota',
  'raise_token_limit',
  'raise_user_limit',
  'allow_model',
  'allow_address',
  'enable_token',
  'extend_token',
  'enable_user',
  'enable_channel',
  'open_channel',
  'replace_key',
  'edit_base_url',
  'edit_mapping',
  'add_channel',
] as const
export type ActionKind = (typeof ACTIONS)[number]

/** An action, and what it changes: as in audit records (`channel:3`, `model:gpt-5`, `token:2`, `user:1`) and by name. */
export type SuggestedAction = { readonly kind: ActionKind; readonly target: string; readonly name: string }

/** Actions that only the owner of the token can take; administrators take the others. */
const OWN_ACTIONS: ReadonlySet<ActionKind> = new Set([
  'raise_token_quota',
  'raise_token_limit',
  'allow_model',
  'allow_address',
  'enable_token',
  'extend_token',
])
export const isOwnAction = ({ kind }: SuggestedAction) => OWN_ACTIONS.has(kind)

const MEND_ROUTE = 'make the model available again'
const ACTION_TEXT: Readonly<Record<ActionKind, string>> = {
  set_price: 'set a price for the model',
  add_credit: 'add credit to the user',
  raise_token_quota: 'raise the quota of the token',
  raise_token_limit: 'raise the limits of the token',
  raise_user_limit: 'raise the limits of the user',
  allow_model: 'add the model to the list of the token',
  allow_address: 'add the address to the list of the token',
  enable_token: 'enable the token',
  extend_token: 'extend the token',
  enable_user: 'enable the user',
  // Users do not learn about channels.
  enable_channel: MEND_ROUTE,
  open_channel: MEND_ROUTE,
  replace_key: MEND_ROUTE,
  edit_base_url: MEND_ROUTE,
  edit_mapping: MEND_ROUTE,
  add_channel: 'add a channel that serves the model',
}

/** The advice for a person who cannot take the action. */
export const adviceOf = (action: SuggestedAction) =>
  `${isOwnAction(action) ? 'The owner of the token' : 'An administrator'} can ${ACTION_TEXT[action.kind]}.`
