import type { Logger } from 'pino'
import { isPublicHost, type UntrustedProxy } from '../http/exposure.ts'
import type { Config } from './config.ts'

/** Whether passwords and keys are sent unencrypted. A trusted proxy is assumed to use TLS. */
export const isPublicWithoutTls = ({
  host,
  trustedProxies,
  tls,
}: Pick<Config, 'host' | 'trustedProxies' | 'tls'>) =>
  isPublicHost(host) && trustedProxies.length === 0 && tls === undefined

export function warnOfPublicHost(log: Logger, config: Config): void {
  if (!isPublicWithoutTls(config)) return
  log.warn(
    { host: config.host },
    'HOST is a public address and no TLS proxy is configured: passwords and keys are sent unencrypted. Put a TLS proxy in front and add it to SLUICE_TRUSTED_PROXIES, or set HOST=127.0.0.1.',
  )
}

export const warnOfProxy =
  (log: Logger) =>
  ({ peer }: UntrustedProxy): void =>
    log.warn(
      { peer },
      'Ignoring forwarding headers such as X-Forwarded-For from a peer that is not in SLUICE_TRUSTED_PROXIES: all clients behind it count as one address. If it is your proxy, add it to SLUICE_TRUSTED_PROXIES.',
    )
