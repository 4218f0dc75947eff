import type { Logger } from 'pino'

/** Logs the first failure of an outage and its end, not every attempt. `receiver` has no path, which may contain a credential. */
export function createOutageLog(
  log: Logger,
  { signal, receiver }: { readonly signal: string; readonly receiver: string },
) {
  let isDown = false
  return (failure: string | undefined): void => {
    if (failure === undefined) {
      if (isDown) log.info({ signal, receiver }, 'The receiver of telemetry accepts data again.')
      isDown = false
      return
    }
    if (!isDown) log.warn({ signal, receiver, reason: failure }, 'Telemetry could not be delivered.')
    isDown = true
  }
}
