import { Refusal } from '../../domain/errors.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'
import type { RelayDeps } from '../request.ts'
import { createIdentifiedCaller, type IdentifiedCaller } from './admit.ts'
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
  if (deps.isOverloaded(request))
    throw new Refusal('overloaded', 'The gateway is overloaded. Try again in a moment.', { retryAfterS: 1 })
  const toIdentifiedCaller = (caller: Caller | undefined) =>
    createIdentifiedCaller(
      deps,
      mustBeLive(caller, Math.floor(deps.nowMs() / 1000)),
      deps.clientAddress(request).address,
    )
  const finding = deps.directory.find(credential)
  return finding instanceof Promise ? finding.then(toIdentifiedCaller) : toIdentifiedCaller(finding)
}
