import { type ReactNode, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError, OFFLINE } from '../api/errors.ts'
import { useGatewayText } from '../texts/gateway-text.tsx'
import { Button } from './button.tsx'
import { CopyButton } from './copy.tsx'
import { CircleAlert, RotateCw } from './icons.ts'

const QUIET_MS = 200

/** Shows nothing for a moment, so that fast responses do not flash a placeholder. */
export function Loading({ lines = 6 }: { readonly lines?: number }) {
  const { t } = useTranslation()
  const [isShown, show] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => show(true), QUIET_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div role="status" aria-busy="true" className="flex flex-col gap-3 p-4">
      <span className="sr-only">{t('common.loading')}</span>
      {isShown
        ? Array.from({ length: lines }, (_, line) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all alike
            <span key={line} className="h-4 animate-pulse rounded-control bg-sunken" />
          ))
        : null}
    </div>
  )
}

type EmptyProps = { readonly title: string; readonly children?: ReactNode }

export function Empty({ title, children }: EmptyProps) {
  return (
    <div className="flex flex-col items-center gap-3 px-6 py-12 text-center">
      <p className="font-medium">{title}</p>
      {children ? (
        <div className="flex w-full max-w-xl flex-col items-center gap-3 text-ink-2">{children}</div>
      ) : null}
    </div>
  )
}

/** The text for an error: the console's for known codes, followed by the gateway's message. */
export function useErrorText() {
  const { t, i18n } = useTranslation()
  const gatewayText = useGatewayText()
  return (error: unknown): string => {
    if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error)
    if (error.code === OFFLINE) return t('fault.no_response')
    const key = `fault.${error.code}`
    const ours = i18n.exists(key)
      ? t(key as 'fault.not_found', { seconds: error.retryAfterS ?? 0, status: error.status })
      : ''
    return [ours, gatewayText(error.message)].filter(Boolean).join(' ')
  }
}

type ErrorCardProps = { readonly error: unknown; readonly onRetry?: () => void }

/** An error with its code, its request id and a retry button. */
export function ErrorCard({ error, onRetry }: ErrorCardProps) {
  const { t } = useTranslation()
  const words = useErrorText()
  const facts = error instanceof ApiError ? error : undefined
  const details = [facts?.code, facts?.requestId].filter(Boolean).join(' · ')
  return (
    <div role="alert" className="m-4 flex gap-3 rounded-sheet border border-bad bg-bad-soft p-4">
      <CircleAlert size={16} className="mt-0.5 shrink-0 text-bad" aria-hidden />
      <div className="flex min-w-0 grow flex-col gap-2">
        <p className="break-words">{words(error)}</p>
        {details ? <p className="font-mono text-code break-all text-ink-2">{details}</p> : null}
        <div className="flex flex-wrap gap-2">
          {onRetry ? (
            <Button isSmall icon={RotateCw} onClick={onRetry}>
              {t('common.retry')}
            </Button>
          ) : null}
          {details ? (
            <CopyButton isSmall text={`${words(error)} · ${details}`} label={t('fault.copy')} />
          ) : null}
        </div>
      </div>
    </div>
  )
}

type PartProps = {
  readonly result: {
    readonly data?: unknown
    readonly error: unknown
    readonly isPending: boolean
    refetch(): unknown
  }
  readonly children: ReactNode
}

/** A part of a page with its own loading and error state. Data stays visible when a refetch fails. */
export function Part({ result, children }: PartProps) {
  if (result.isPending) return <Loading />
  return (
    <>
      {result.error ? <ErrorCard error={result.error} onRetry={() => void result.refetch()} /> : null}
      {result.error && result.data === undefined ? null : children}
    </>
  )
}
