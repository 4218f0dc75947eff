import { Refusal } from '../../domain/errors.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'
import type { RelayDeps } from '../request.ts'
import { IdentifiedCaller } from './admit.ts'
import { type Caller, mustBeLive } from './callers.ts'

/** Identifies the caller before the body is read. Synchronous for a cached caller. */
export function identify(
  deps: RelayDeps,
  request: RelayIncoming,
  credential: string,
): IdentifiedCaller | Promise<IdentifiedCaller> {
  if (deps.isStopping())
    throw new Refusal('shutting_down', 'The gateway is shutting down. Try again in a moment.', {
      retryAfterS: 5,
    })
  if (deps.isFenced())
    throw new Refusal(
      'ledger_unavailable',
      'This node has lost its connection to the database and may have missed changes. Try again in a moment.',
      { retryAfterS: 5 },
    )
  if (deps.isOverloaded(request))
    throw new Refusal('overloaded', 'The gateway is overloaded. Try again in a moment.', { retryAfterS: 1 })
  const finding = deps.directory.find(credential)
  return finding instanceof Promise
    ? finding.then(caller => identifiedCaller(deps, request, caller))
    : identifiedCaller(deps, request, finding)
}

function identifiedCaller(deps: RelayDeps, request: RelayIncoming, caller: Caller | undefined) {
  const live = mustBeLive(caller, Math.floor(deps.nowMs() / 1000))
  return new IdentifiedCaller(deps, live, deps.clientAddress(request).address)
}
