import type { Logger } from 'pino'

/** Logs the first failure of an outage and its end, not every attempt. A path may contain a credential, so it is left out. */
export function createOutageLog(
  log: Logger,
  { signal, url }: { readonly signal: string; readonly url: string },
) {
  const receiver = new URL(url).origin
  let isDown = false
  return (failure: string | undefined): void => {
    if (failure === undefined) {
      if (isDown) log.info({ signal, receiver }, 'The receiver of telemetry accepts data again.')
      isDown = false
      return
    }
    if (!isDown)
      log.warn({ signal, receiver, reason: failure }, 'Telemetry could not be delivered. Retrying.')
    isDown = true
  }
}
