import type { Channel, ChannelType } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import type { StatusName } from '../../look/status-badge.tsx'

const TYPES_STALE_MS = 60_000

/** The providers, from the gateway. The console knows no vendor itself. */
export function useTypes() {
  const result = useCall('listTypes', {}, { staleMs: TYPES_STALE_MS })
  const byNumber = new Map<number, ChannelType>(result.data?.map(type => [type.type, type]))
  return { result, list: result.data ?? [], byNumber }
}

export const monogram = (name: string) =>
  name
    .split(/[^\p{L}\p{N}]+/u)
    .map(word => word[0] ?? '')
    .join('')
    .slice(0, 2)
    .toUpperCase()

const STATES: Readonly<Record<number, StatusName>> = { 1: 'enabled', 2: 'disabled', 3: 'auto_disabled' }
export const statusOf = ({ status }: Pick<Channel, 'status'>): StatusName => STATES[status] ?? 'disabled'

/** Splits pasted keys at line breaks and commas. A JSON document is one key. */
export function splitKeys(text: string): readonly string[] {
  const trimmed = text.trim()
  if (trimmed === '') return []
  if (/^[{[]/.test(trimmed)) return [trimmed]
  return trimmed
    .split(/[\n\r,]+/)
    .map(key => key.trim())
    .filter(key => key !== '')
}
