import type { Token } from '../../api/contract.ts'
import type { GateState } from '../../look/status-badge.tsx'

const STATES: Readonly<Record<number, GateState>> = {
  1: 'enabled',
  2: 'disabled',
  3: 'expired',
  4: 'used_up',
}
export const gateOf = ({ status }: Pick<Token, 'status'>): GateState => STATES[status] ?? 'disabled'
