import type { IncomingMessage } from 'node:http'
import { Refusal, UnreachableError } from '../domain/errors.ts'
import { storable } from '../domain/text.ts'
import { relayErrorOf } from './answer/error-format.ts'
import { credentialOf } from './callers/admit.ts'
import { type RequestTags, tagsOf } from './intake/tags.ts'
import type { RelayDeps, RequestReport } from './request.ts'

const MAX_MESSAGE = 2_000
const MAX_PARAM = 255

/** These rejections come before the caller is looked up. */
const BEFORE_IDENTIFICATION: ReadonlySet<string> = new Set([
  'cross_site_refused',
  'not_found',
  'method_not_allowed',
])

/** The caller of a request that failed; undefined if its credential is unknown. */
async function callerOf({ directory }: RelayDeps, request: IncomingMessage, { code }: Refusal) {
  try {
    const credential = credentialOf(request)
    return BEFORE_IDENTIFICATION.has(code)
      ? await directory.find(credential)
      : directory.findCached(credential)
  } catch (error) {
    if (error instanceof Refusal || error instanceof UnreachableError) return undefined
    throw error
  }
}

/** The tags of a request whose body was not read. */
function headerTags({ headers }: IncomingMessage): RequestTags | undefined {
  try {
    return tagsOf(headers)
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

/** Records a rejected request: one for which the ledger writes no log row. */
export async function recordRejection(
  deps: RelayDeps,
  request: IncomingMessage,
  report: RequestReport,
  refusal: Refusal,
): Promise<void> {
  const { requestId, startedMs, work, passedOver } = report
  const timeMs = deps.nowMs()
  const caller = await callerOf(deps, request, refusal)
  if (caller) report.caller ??= caller
  const {
    status,
    body: { error },
  } = relayErrorOf(refusal)
  const code = String(error.code ?? refusal.code)
  if (!caller) {
    deps.rejections.addUnknown(code, timeMs)
    return
  }
  const isServed = work !== undefined && deps.catalog.table().resolve(work.model) !== undefined
  deps.rejections.add({
    timeMs,
    userId: caller.userId,
    tokenId: caller.tokenId,
    tokenName: caller.tokenName,
    model: isServed ? work.model : '',
    requestId,
    code,
    status,
    message: storable(error.message.slice(0, MAX_MESSAGE)),
    param: error.param === null ? undefined : storable(error.param.slice(0, MAX_PARAM)),
    useTimeMs: timeMs - startedMs,
    isStream: work?.isStream ?? false,
    passedOver,
    tags: work?.tags ?? headerTags(request),
    address: deps.clientAddress(request).address,
  })
}
