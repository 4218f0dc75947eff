import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { announce } from './announce.tsx'
import { Button, IconButton } from './button.tsx'
import { Check, Copy } from './icons.ts'

/**
 * On plain HTTP there is no clipboard API, but a selected range can be copied. The range is appended near the
 * button, because a dialog traps the focus. Returns whether the copy succeeded.
 */
async function copyText(text: string, near: HTMLElement): Promise<boolean> {
  if (window.isSecureContext && navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text)
      return true
    } catch {
      // Denied, for example without focus. Try the selection instead.
    }
  }
  const carrier = document.createElement('span')
  carrier.textContent = text
  carrier.className = 'fixed top-0 left-0 whitespace-pre opacity-0 select-text'
  near.append(carrier)
  const selection = getSelection()
  const range = document.createRange()
  range.selectNodeContents(carrier)
  selection?.removeAllRanges()
  selection?.addRange(range)
  try {
    return document.execCommand('copy')
  } finally {
    selection?.removeAllRanges()
    carrier.remove()
  }
}

const FEEDBACK_MS = 2_000

function useCopy(text: string) {
  const { t } = useTranslation()
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle')
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const copy = async (near: HTMLElement) => {
    const isDone = await copyText(text, near.parentElement ?? document.body)
    setState(isDone ? 'copied' : 'failed')
    announce(isDone ? t('copy.copied') : t('copy.failed'))
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setState('idle'), FEEDBACK_MS)
  }
  return { state, copy }
}

type CopyProps = {
  readonly text: string
  readonly label?: string
  readonly isPrimary?: boolean
  readonly isSmall?: boolean
}

export function CopyButton({ text, label, isPrimary = false, isSmall = false }: CopyProps) {
  const { t } = useTranslation()
  const { state, copy } = useCopy(text)
  const words = { idle: label ?? t('copy.copy'), copied: t('copy.copied'), failed: t('copy.failed') }
  return (
    <Button
      kind={isPrimary ? 'primary' : 'plain'}
      isSmall={isSmall}
      icon={state === 'copied' ? Check : Copy}
      onClick={event => void copy(event.currentTarget)}
    >
      {words[state]}
    </Button>
  )
}

type CopyIconProps = { readonly text: string; readonly label: string; readonly hint?: string }

export function CopyIcon({ text, label, hint }: CopyIconProps) {
  const { state, copy } = useCopy(text)
  return (
    <IconButton
      icon={state === 'copied' ? Check : Copy}
      label={label}
      data-key={hint}
      className="size-6 pointer-coarse:size-8"
      onClick={event => {
        event.stopPropagation()
        void copy(event.currentTarget)
      }}
    />
  )
}

/** An id in full, with a copy button. */
export function CopyableId({ id }: { readonly id: string }) {
  const { t } = useTranslation()
  return (
    <span className="inline-flex items-center gap-1">
      <code className="font-mono text-code break-all">{id}</code>
      <CopyIcon text={id} label={t('copy.copy')} />
    </span>
  )
}
