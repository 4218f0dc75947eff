import { KEY_STATUS } from '../../domain/channel-key.ts'
import { parseLimits } from '../../domain/limits.ts'
import { unitsUsed, usdText } from '../../domain/money.ts'
import { maskSecrets } from '../../domain/secret-name.ts'
import type { ChannelRow } from '../../store/engine/schema.ts'
import type { ChannelKey } from '../../store/records/channel-keys.ts'

const object = (text: string) => JSON.parse(text) as Record<string, unknown>

/** A channel as the API and the audit log show it: with masked keys, and masked values that look like secrets. */
export function presentChannel(row: ChannelRow, keys: readonly ChannelKey[]) {
  const isMulti = row.is_multi === 1
  const disabled = keys.filter(({ status }) => status !== KEY_STATUS.enabled)
  return {
    id: row.id,
    name: row.name,
    type: row.type,
    key: maskedKey(keys),
    keys: keys.map(({ position, hint, status, reason, disabled_time }) => ({
      index: position,
      key: hint,
      status,
      reason,
      disabled_time,
    })),
    base_url: row.base_url,
    models: JSON.parse(row.models) as string[],
    model_mapping: JSON.parse(row.model_mapping) as Record<string, string>,
    priority: row.priority,
    weight: row.weight,
    status: row.status,
    status_reason: row.status_reason,
    tag: row.tag,
    group: row.channel_group,
    created_time: row.created_time,
    test_time: row.test_time,
    response_time: row.response_time,
    used_quota: unitsUsed(row.used),
    vendor_cost: usdText(row.vendor_cost),
    vendor_cost_difference: usdText(row.vendor_cost - row.vendor_compared),
    auto_ban: row.auto_ban,
    test_model: row.test_model,
    param_override: object(row.param_override),
    header_override: maskSecrets(object(row.header_override)),
    status_code_mapping: object(row.status_code_mapping),
    setting: maskSecrets(object(row.setting)),
    openai_organization: row.openai_organization,
    other: row.other,
    remark: row.remark,
    limits: parseLimits(row.limits),
    channel_info: {
      is_multi_key: isMulti,
      multi_key_size: keys.length,
      multi_key_status_list: isMulti
        ? Object.fromEntries(disabled.map(({ position, status }) => [String(position), status]))
        : null,
      // Keys are always used in rotation.
      multi_key_mode: isMulti ? 'polling' : '',
    },
  }
}

export type ChannelView = ReturnType<typeof presentChannel>

export const maskedKey = (keys: readonly Pick<ChannelKey, 'hint'>[]) =>
  keys.map(({ hint }) => hint).join('\n')

/** The fields of one channel that a bulk change altered, for the audit log. */
export function difference(before: ChannelView, after: ChannelView) {
  const names = (Object.keys(after) as (keyof ChannelView)[]).filter(
    name => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  )
  const pick = (view: ChannelView) => Object.fromEntries(names.map(name => [name, view[name]]))
  return { before: pick(before), after: pick(after) }
}
