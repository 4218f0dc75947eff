import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import type { RelayDeps } from '../request.ts'
import { type AdmittedCaller, createAdmittedCaller } from './admit.ts'
import { type Caller, mustBeLive } from './callers.ts'

/** Identifies the caller before the body is read. Synchronous for a cached caller. */
export function identify(
  deps: RelayDeps,
  request: IncomingMessage,
  credential: string,
): AdmittedCaller | Promise<AdmittedCaller> {
  if (deps.isStopping())
    throw new Refusal('shutting_down', 'The gateway is shutting down. Try again in a moment.', {
      retryAfterS: 5,
    })
  if (deps.isOverloaded(request))
    throw new Refusal('overloaded', 'The gateway is overloaded. Try again in a moment.', { retryAfterS: 1 })
  const admitCaller = (caller: Caller | undefined) =>
    createAdmittedCaller(
      deps,
      mustBeLive(caller, Math.floor(deps.nowMs() / 1000)),
      deps.clientAddress(request).address,
    )
  const finding = deps.directory.find(credential)
  return finding instanceof Promise ? finding.then(admitCaller) : admitCaller(finding)
}
