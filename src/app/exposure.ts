import type { Logger } from 'pino'
import { isPublicHost, type UntrustedProxy } from '../http/exposure.ts'
import type { Config } from './config.ts'

/** Passwords and keys would cross the network in the clear; a trusted proxy is taken to speak TLS in front. */
export const isPublicWithoutTls = ({ host, trustedProxies }: Pick<Config, 'host' | 'trustedProxies'>) =>
  isPublicHost(host) && trustedProxies.length === 0

export function warnOfPublicHost(log: Logger, config: Config): void {
  if (!isPublicWithoutTls(config)) return
  log.warn(
    { host: config.host },
    'HOST is a public address and no TLS proxy is known: passwords and keys cross the network in the clear. Put a proxy with TLS in front and name it in SLUICE_TRUSTED_PROXIES, or listen on 127.0.0.1',
  )
}

export const warnOfProxy =
  (log: Logger) =>
  ({ peer }: UntrustedProxy): void =>
    log.warn(
      { peer },
      'forwarding headers such as X-Forwarded-For came from a peer that is not in SLUICE_TRUSTED_PROXIES and are ignored: all clients behind it count as one address. If it is your proxy, add it',
    )
