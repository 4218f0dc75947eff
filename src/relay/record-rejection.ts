import { RELAY_STATUS, Refusal, UnreachableError } from '../domain/errors.ts'
import { storable } from '../domain/text.ts'
import type { RelayIncoming } from '../http/relay-exchange.ts'
import { type RelayError, relayErrorOf } from './answer/error-format.ts'
import { credentialOf } from './callers/admit.ts'
import type { Caller } from './callers/callers.ts'
import { type RequestTags, tagsOf } from './intake/tags.ts'
import type { RelayDeps, RequestReport } from './request.ts'

const MAX_MESSAGE = 2_000
const MAX_PARAM = 255
const MAX_MODEL = 255

/** These rejections come before the caller is looked up. */
const BEFORE_IDENTIFICATION: ReadonlySet<string> = new Set([
  'cross_site_refused',
  'not_found',
  'method_not_allowed',
  'overloaded',
  'shutting_down',
])
/** The caller's own limits say nothing about a canary. */
const OWN_LIMITS: ReadonlySet<string> = new Set(['insufficient_quota', 'rate_limit_exceeded'])
/** Lookups only for the log, at once. A flood of rejected requests must not reach the store. */
const MAX_LOOKUPS = 20

/** The tags of a request whose body was not read. */
function headerTags({ headers }: RelayIncoming): RequestTags | undefined {
  try {
    return tagsOf(headers)
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

type RejectedRequest = {
  readonly request: RelayIncoming
  readonly report: RequestReport
  readonly caller: Pick<Caller, 'userId' | 'tokenId' | 'tokenName'>
  readonly error: RelayError
  readonly code: string
}

/** Records a rejected request of a known caller. */
function recordOfCaller(deps: RelayDeps, { request, report, caller, error, code }: RejectedRequest): void {
  const { requestId, startedMs, work, passedOver } = report
  const { message, param } = error.body.error
  const timeMs = deps.nowMs()
  const isServed = work !== undefined && deps.catalog.table().resolve(work.model) !== undefined
  deps.rejections.add({
    timeMs,
    userId: caller.userId,
    tokenId: caller.tokenId,
    tokenName: caller.tokenName,
    model: isServed ? work.model : '',
    requestedModel: isServed || work === undefined ? undefined : storable(work.model.slice(0, MAX_MODEL)),
    requestId,
    code,
    status: error.status,
    message: storable(message.slice(0, MAX_MESSAGE)),
    param: param === null ? undefined : storable(param.slice(0, MAX_PARAM)),
    useTimeMs: timeMs - startedMs,
    isStream: work?.isStream ?? false,
    passedOver,
    canaries: OWN_LIMITS.has(code) ? undefined : report.canaries,
    tags: work?.tags ?? headerTags(request),
    address: deps.clientAddress(request).address,
  })
}

/** Records rejected requests: those for which the ledger writes no log row. */
export function createRejectionRecorder(deps: RelayDeps) {
  let lookups = 0

  /** The caller of a request that failed; undefined if its credential is unknown. */
  async function callerOf(request: RelayIncoming, { code }: Refusal): Promise<Caller | undefined> {
    try {
      const credential = credentialOf(request)
      const cached = deps.directory.findCached(credential)
      if (cached || !BEFORE_IDENTIFICATION.has(code) || lookups >= MAX_LOOKUPS) return cached
      lookups += 1
      try {
        return await deps.directory.find(credential)
      } finally {
        lookups -= 1
      }
    } catch (error) {
      if (error instanceof Refusal || error instanceof UnreachableError) return undefined
      throw error
    }
  }

  return async function recordRejection(
    request: RelayIncoming,
    report: RequestReport,
    refusal: Refusal,
  ): Promise<void> {
    const error = relayErrorOf(refusal)
    const code = String(error.body.error.code ?? refusal.code)
    const caller = await callerOf(request, refusal)
    if (!caller) return deps.rejections.addUnknown(code, deps.nowMs())
    report.caller ??= caller
    recordOfCaller(deps, { request, report, caller, error, code })
  }
}

/** A provider's error has its status as code, as in the row of the request that got it first. */
function codeOf({ status, body }: RelayError): string {
  const { code } = body.error
  const own = Object.entries(RELAY_STATUS).find(([name, each]) => name === code && each.status === status)
  return own ? own[0] : `upstream_${status}`
}

/** Records an error that was stored for an `Idempotency-Key` and is replayed. */
export function recordReplay(
  deps: RelayDeps,
  { request, report, caller, error }: Omit<RejectedRequest, 'code'>,
): void {
  report.code = codeOf(error)
  report.caller ??= caller
  recordOfCaller(deps, { request, report, caller, error, code: report.code })
}
