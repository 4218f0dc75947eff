import type { Token } from '../../api/contract.ts'
import type { StatusName } from '../../look/status-badge.tsx'

const STATES: Readonly<Record<number, StatusName>> = {
  1: 'enabled',
  2: 'disabled',
  3: 'expired',
  4: 'used_up',
}
export const statusOf = ({ status }: Pick<Token, 'status'>): StatusName => STATES[status] ?? 'disabled'
