import { useTranslation } from 'react-i18next'
import { GatewayText } from '../../texts/gateway-text.tsx'

type Network = {
  readonly proxy: string | null
  readonly proxy_source: 'channel' | 'gateway' | null
  readonly dns_servers: readonly string[]
  readonly ip_family: string
  readonly ca: readonly string[]
  readonly client_cert: string | null
  readonly fault: string | null
}

/** How the gateway connects to a channel, if not in the default way. */
export function NetworkNote({ network }: { readonly network: Network | null }) {
  const { t } = useTranslation()
  if (network === null) return null
  const { proxy, proxy_source, dns_servers, ip_family, ca, client_cert, fault } = network
  const notes = [
    ...(proxy === null
      ? []
      : [t(proxy_source === 'channel' ? 'network.by_channel' : 'network.by_gateway', { proxy })]),
    ...(ca.includes('channel') ? [t('network.with_ca')] : []),
    ...(client_cert === null ? [] : [t('network.with_client_cert', { subject: client_cert })]),
    ...(ip_family === 'system' ? [] : [t(`network.${ip_family}` as 'network.ipv4first')]),
    ...(dns_servers.length === 0 ? [] : [t('network.with_dns', { servers: dns_servers.join(', ') })]),
  ]
  if (notes.length === 0 && fault === null) return null
  return (
    <span className="block min-w-0 break-words text-label text-ink-3">
      {notes.join(' · ')}
      {fault === null ? null : (
        <span className="text-bad">
          {' '}
          <GatewayText text={fault} />
        </span>
      )}
    </span>
  )
}
