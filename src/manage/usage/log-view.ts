import type { Actor } from '../../domain/actor.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import { unitsUsed, usdText } from '../../domain/money.ts'
import { isAdmin } from '../../domain/role.ts'
import type { LogWithNames } from '../../store/usage/logs.ts'

/** A text search first, because few rows have a vendor cost and parsing every row is slow. */
const vendorCostOf = (other: string): string | null =>
  other.includes('"vendor_cost"') ? ((JSON.parse(other) as Other).vendor_cost ?? null) : null

export const presentRow = (row: LogWithNames) => ({
  id: row.id,
  user_id: row.user_id,
  created_at: row.created_time,
  type: row.type,
  content: row.content,
  username: row.username ?? '',
  token_id: row.token_id,
  token_name: row.token_name,
  model_name: row.model_name,
  quota: unitsUsed(row.cost),
  cost: usdText(row.cost),
  vendor_cost: vendorCostOf(row.other),
  prompt_tokens: row.prompt_tokens,
  completion_tokens: row.completion_tokens,
  use_time: Math.round(row.use_time_ms / 1000),
  use_time_ms: row.use_time_ms,
  is_stream: row.is_stream === 1,
  channel: row.channel_id,
  channel_name: row.channel_name ?? '',
  group: 'default',
  ip: row.address,
  request_id: row.request_id,
  upstream_request_id: row.upstream_request_id,
  requests: row.requests,
  other: row.other,
})

/** Only administrators see how a request was routed. Its owner sees the number and duration of retries. */
export const presentToOwner = (row: LogWithNames) => {
  const {
    admin_info: _routed,
    audit_info: _audited,
    canary: _tried,
    shadow: _planned,
    trace,
    ...other
  } = JSON.parse(row.other) as Other
  const attempts = trace?.attempts?.map(({ ms }) => ({ ms }))
  return {
    ...presentRow(row),
    channel_name: '',
    // Of a failed request it belongs to the provider's report, which only administrators see.
    upstream_request_id: row.type === LOG_TYPE.error ? '' : row.upstream_request_id,
    other: JSON.stringify(attempts ? { ...other, trace: { attempts } } : other),
  }
}
type Other = Record<string, unknown> & {
  readonly trace?: { readonly attempts?: readonly { ms?: number }[] }
  readonly vendor_cost?: string
}

export const presenterFor = (actor: Pick<Actor, 'role'>) => (isAdmin(actor) ? presentRow : presentToOwner)

export type LogView = ReturnType<typeof presentRow>
