import { useTranslation } from 'react-i18next'
import { CopyButton } from './copy.tsx'

/** A secret in full, with a copy button and a note whether it can be revealed later. */
export function Secret({
  label,
  value,
  canReveal = false,
}: {
  readonly label: string
  readonly value: string
  /** True for keys that the tokens page can reveal again. */
  readonly canReveal?: boolean
}) {
  const { t } = useTranslation()
  return (
    <div className="flex flex-col gap-1">
      <span className="text-label font-medium text-ink-2">{label}</span>
      <div className="flex flex-wrap items-center gap-2">
        <code
          data-secret
          className="min-w-0 grow rounded-control bg-sunken px-2.5 py-1.5 font-mono text-code break-all select-all"
        >
          {value}
        </code>
        <CopyButton text={value} />
      </div>
      {canReveal ? (
        <p className="text-label text-ink-3">{t('secret.reveal_later')}</p>
      ) : (
        <p className="text-label text-warn">{t('secret.once')}</p>
      )}
    </div>
  )
}
