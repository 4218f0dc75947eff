import type { Channel, ChannelHealth } from '../../api/contract.ts'
import { CooldownBadge } from '../../look/cooldown.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { statusOf } from './channel-types.ts'
import { cooldownOf } from './use-health.ts'

type ChannelStateProps = { readonly channel: Channel; readonly health: ChannelHealth | undefined }

/** The status of a channel: enabled, disabled, or cooling down with the time left. */
export function ChannelBadge({ channel, health }: ChannelStateProps) {
  const cooldown = cooldownOf(channel, health)
  return cooldown ? (
    <CooldownBadge until={cooldown.cooldown_until} />
  ) : (
    <StatusBadge state={statusOf(channel)} />
  )
}

/** Why the channel is not used, in the provider's words; empty if it is used, or was disabled by hand. */
export const faultOf = ({ channel, health }: ChannelStateProps) =>
  channel.status === 3 ? channel.status_reason : (cooldownOf(channel, health)?.reason ?? '')

/** The status in a list: the reason is below it. */
export function ChannelState(props: ChannelStateProps) {
  const fault = faultOf(props)
  return (
    <span className="flex flex-col">
      <ChannelBadge {...props} />
      {fault ? (
        <span className="line-clamp-2 max-w-44 text-label text-bad" title={fault}>
          <GatewayText text={fault} />
        </span>
      ) : null}
    </span>
  )
}
