import type { Token } from '../../api/contract.ts'
import type { StatusName } from '../../look/status-badge.tsx'

const STATES: Readonly<Record<number, StatusName>> = {
  1: 'enabled',
  2: 'disabled',
  3: 'expired',
  4: 'used_up',
}
export const statusOf = ({ status }: Pick<Token, 'status'>): StatusName => STATES[status] ?? 'disabled'

/** Unix seconds; 0 if the token has not been used: the API then has the time of its creation. */
export const lastUse = ({ accessed_time, created_time }: Pick<Token, 'accessed_time' | 'created_time'>) =>
  accessed_time > created_time ? accessed_time : 0
