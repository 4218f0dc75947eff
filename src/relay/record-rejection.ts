import type { IncomingMessage } from 'node:http'
import { Refusal } from '../domain/errors.ts'
import { storable } from '../domain/text.ts'
import { relayErrorOf } from './answer/error-format.ts'
import { credentialOf } from './callers/admit.ts'
import type { RelayDeps, RequestReport } from './request.ts'

const MAX_MESSAGE = 2_000
const MAX_PARAM = 255

/** The caller of a request that failed; undefined if its credential is unknown or was not looked up. */
function callerOf({ directory }: RelayDeps, request: IncomingMessage) {
  try {
    return directory.findCached(credentialOf(request))
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

/** Records a rejected request: one for which the ledger writes no log row. */
export function recordRejection(
  deps: RelayDeps,
  request: IncomingMessage,
  report: RequestReport,
  refusal: Refusal,
): void {
  const { requestId, startedMs, work } = report
  const timeMs = deps.nowMs()
  const caller = callerOf(deps, request)
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
    address: deps.clientAddress(request).address,
  })
}
