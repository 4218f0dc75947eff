import type { CanaryMark } from '../../domain/canary.ts'
import { Refusal } from '../../domain/errors.ts'
import { isAddressIn } from '../../http/address.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'
import { apiKeyOf } from '../../identity/credentials.ts'
import {
  type Admission,
  isLimited,
  type RateLimiter,
  type Remaining,
  type Subject,
  type Ticket,
  unlimited,
} from '../../routing/rates.ts'
import type { RoutedModel } from '../../routing/table.ts'
import type { Catalog, RelayChannel } from '../catalog/catalog.ts'
import { mustFit } from '../eligibility.ts'
import type { Work } from '../operations/operation.ts'
import { allowsRouting } from '../operations/routing-fields.ts'
import type { Caller } from './callers.ts'

const textOf = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value) ?? ''

const queryOf = (url = '') => new URLSearchParams(url.split('?')[1] ?? '')

const ASSUMED = Symbol('assumed')

/** A request whose caller is already identified. A client cannot set the symbol. */
type Assumed = RelayIncoming & { [ASSUMED]?: string }

/** Assigns this credential to the request; it replaces the one in the headers. */
export function assignCaller(request: Assumed, credential: string): void {
  request[ASSUMED] = credential
}

const GEMINI_PATH = /^\/+v1beta(?:[/?]|$)/
const MODELS_PATH = /^\/+v1\/+models(?:[/?]|$)/

/** Google's SDKs send the token as `?key=`. Other paths do not accept it, because any web page could link to such a URL. */
function keyInQuery({ method, url = '' }: RelayIncoming): string {
  const isRead = method === 'GET' || method === 'HEAD'
  const acceptsKey = GEMINI_PATH.test(url) || (isRead && MODELS_PATH.test(url))
  return acceptsKey ? (queryOf(url).get('key') ?? '') : ''
}

/** The usual spelling. */
const BEARER = 'Bearer '

/** The token of `Authorization`, else of the headers of other SDKs (docs/reference/relay-api.md: Relay credentials). */
const sentCredential = (request: RelayIncoming): string => {
  const { headers } = request
  const { authorization } = headers
  if (authorization !== undefined)
    return (
      authorization.startsWith(BEARER)
        ? authorization.slice(BEARER.length)
        : authorization.replace(/^bearer\s+/i, '')
    ).trim()
  return textOf(headers['x-api-key']) || textOf(headers['x-goog-api-key']) || keyInQuery(request)
}

/** Whether a request has no credential, so that a console session may identify its caller. */
export const isWithoutCredential = (request: RelayIncoming): boolean =>
  sentCredential(request) === '' && !queryOf(request.url).has('key')

export function credentialOf(request: Assumed): string {
  const assumed = request[ASSUMED]
  if (assumed !== undefined) return assumed
  const value = sentCredential(request)
  if (value === '')
    throw new Refusal('invalid_api_key', 'No token was sent. Use the header Authorization: Bearer sk-….')
  if (value.startsWith('sk-')) return value
  const key = apiKeyOf(value)
  if (key === undefined) throw new Refusal('invalid_api_key', 'This is not an sk- token.')
  return key
}

/** A caller with a valid token and an allowed address, and its rate limits. */
export class IdentifiedCaller {
  readonly caller: Caller
  readonly address: string
  readonly #rates: RateLimiter
  #ticket: Ticket | undefined

  constructor({ rates }: { readonly rates: RateLimiter }, caller: Caller, address: string) {
    if (caller.allowIps.length > 0 && !isAddressIn(address, caller.allowIps))
      throw new Refusal('ip_not_allowed', `The token may not be used from the address ${address}.`)
    this.caller = caller
    this.address = address
    this.#rates = rates
  }

  /** Takes a slot within the limits of token and user, or throws 429. Synchronous if this process counts alone. */
  enter(countedInput: number): Ticket | Promise<Ticket> {
    const { tokenId, tokenLimits, userId, userLimits } = this.caller
    if (!isLimited(tokenLimits) && !isLimited(userLimits)) return unlimited.ticket
    const subjects: readonly Subject[] = [
      { kind: 'token', id: tokenId, limits: tokenLimits },
      { kind: 'user', id: userId, limits: userLimits },
    ]
    const admission = this.#rates.admit(subjects, countedInput)
    return admission instanceof Promise
      ? admission.then(each => this.#ticketOf(each))
      : this.#ticketOf(admission)
  }

  /** The remaining allowance after `enter`. */
  remaining(): Remaining {
    return this.#ticket?.remaining() ?? NOTHING_LIMITED
  }

  #ticketOf(admission: Admission): Ticket {
    if (admission.ok) {
      this.#ticket = admission.ticket
      return admission.ticket
    }
    const { subject, limit, retryAfterS, remaining } = admission
    throw new Refusal(
      'rate_limit_exceeded',
      `The ${subject.kind} has reached its ${limit} limit. Try again in ${retryAfterS} s.`,
      { retryAfterS, headers: rateHeaders(remaining) },
    )
  }
}

const NOTHING_LIMITED: Remaining = {}

/** A request whose body is read. */
type AdmittedWork = {
  readonly deps: { readonly catalog: Catalog }
  readonly work: Work
  readonly report: { readonly requestId: string; canaries?: readonly CanaryMark[] | undefined }
}

/** The route of a request, which may try the change of a canary. */
function routeFor(
  { deps: { catalog }, work, report }: AdmittedWork,
  { tokenId }: Caller,
): RoutedModel<RelayChannel> | undefined {
  const canaries = catalog.canaries()
  if (canaries === undefined) return catalog.table().resolve(work.model)
  const tried = canaries.resolve(work.model, { tokenId, requestId: report.requestId })
  if (tried === undefined) return catalog.table().resolve(work.model)
  report.canaries = tried.marks
  return tried.route
}

/** Checks that the caller may use the model, and resolves its route. */
export function admit(admitting: AdmittedWork, { caller }: IdentifiedCaller): RoutedModel<RelayChannel> {
  const { catalog } = admitting.deps
  const { work } = admitting
  if (caller.models !== undefined && !caller.models.has(work.model))
    throw new Refusal('model_not_allowed', `The token may not use the model "${work.model}".`)
  const route =
    caller.channelId === undefined
      ? routeFor(admitting, caller)
      : catalog.table().resolveOn(work.model, caller.channelId)
  if (!route && caller.channelId !== undefined)
    throw new Refusal('model_not_found', `The channel does not serve the model "${work.model}".`)
  if (!route) throw new Refusal('model_not_found', `No enabled channel serves the model "${work.model}".`)
  if (work.namedModels && caller.models) mustMayUse(work.namedModels, caller.models, route)
  mustFit(catalog, route, work)
  return route
}

/** On channels that let the provider choose a model, a token with a model list may only name models on that list. */
function mustMayUse(
  requestedModels: readonly string[],
  allowed: ReadonlySet<string>,
  { tiers }: RoutedModel<RelayChannel>,
): void {
  if (!tiers.some(({ channels }) => channels.some(allowsRouting))) return
  const other = requestedModels.find(model => !allowed.has(model))
  if (other !== undefined)
    throw new Refusal('model_not_allowed', `The token may not use the model "${other.slice(0, 255)}".`)
}

/** `x-ratelimit-…` headers for the limits that are set. */
export function rateHeaders(remaining: Remaining): Record<string, string> {
  const headers: Record<string, string> = {}
  addRateHeaders(headers, remaining)
  return headers
}

/** Adds them to other headers. */
export function addRateHeaders(headers: Record<string, string>, { requests, tokens }: Remaining): void {
  if (requests) addAllowance(headers, 'requests', requests)
  if (tokens) addAllowance(headers, 'tokens', tokens)
}

function addAllowance(
  headers: Record<string, string>,
  name: keyof Remaining,
  { limit, remaining, resetS }: NonNullable<Remaining[keyof Remaining]>,
): void {
  headers[`x-ratelimit-limit-${name}`] = String(limit)
  headers[`x-ratelimit-remaining-${name}`] = String(remaining)
  headers[`x-ratelimit-reset-${name}`] = String(resetS)
}
