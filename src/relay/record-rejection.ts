import type { IncomingMessage } from 'node:http'
import { Refusal } from '../domain/errors.ts'
import { relayErrorOf } from './answer/error-format.ts'
import { credentialOf } from './callers/admit.ts'
import type { RelayDeps, RequestReport } from './request.ts'

/** The caller of a request that failed; undefined if its credential is unknown. */
function callerOf({ directory }: RelayDeps, request: IncomingMessage) {
  try {
    return directory.findCached(credentialOf(request))
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

/** Records a request that ends without a row of the ledger. */
export function recordRejection(
  deps: RelayDeps,
  request: IncomingMessage,
  { requestId, startedMs, work }: RequestReport,
  refusal: Refusal,
): void {
  const timeMs = deps.nowMs()
  const caller = callerOf(deps, request)
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
    message: error.message,
    param: error.param ?? undefined,
    useTimeMs: timeMs - startedMs,
    isStream: work?.isStream ?? false,
    address: deps.clientAddress(request).address,
  })
}
