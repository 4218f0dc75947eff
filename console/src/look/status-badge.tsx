import { useTranslation } from 'react-i18next'
import { classes } from './classes.ts'

/** A sluice gate between two posts. States differ in shape, not only in colour. */
const SHAPES = {
  enabled: { board: 'M3 2.5h6', extra: '', tone: 'text-ok' },
  disabled: { board: 'M3 8h6', extra: 'M3 6h6', tone: 'text-ink-3' },
  auto_disabled: { board: 'M3 8h6', extra: 'M2 11 10 3', tone: 'text-bad' },
  cooling_down: { board: 'M3 5.5h6', extra: '', tone: 'text-rest' },
  trial: { board: 'M3 5.5h6', extra: '', tone: 'text-rest' },
  untested: { board: '', extra: '', tone: 'text-ink-3' },
  expired: { board: 'M3 8h6', extra: 'M6 3v2.5', tone: 'text-warn' },
  used_up: { board: 'M3 10h6', extra: '', tone: 'text-warn' },
} as const

export type StatusName = keyof typeof SHAPES

export function StatusIcon({ state }: { readonly state: StatusName }) {
  const { board, extra, tone } = SHAPES[state]
  return (
    <svg
      width="14"
      height="14"
      viewBox="0 0 12 12"
      aria-hidden="true"
      className={classes('shrink-0', tone)}
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
    >
      <path d="M2 1v10M10 1v10" strokeDasharray={state === 'untested' ? '2 1.5' : undefined} />
      {board ? <path d={board} strokeWidth="2.5" /> : null}
      {extra ? <path d={extra} /> : null}
    </svg>
  )
}

export function StatusBadge({ state }: { readonly state: StatusName }) {
  const { t } = useTranslation()
  return (
    <span
      className={classes(
        'inline-flex items-center gap-1.5 align-middle',
        state !== 'trial' && 'whitespace-nowrap',
      )}
    >
      <StatusIcon state={state} />
      {t(`status.${state}`)}
    </span>
  )
}
