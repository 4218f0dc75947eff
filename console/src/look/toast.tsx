import { useEffect, useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { Button, IconButton } from './button.tsx'
import { X } from './icons.ts'

type Toast = { readonly id: number; readonly words: string; readonly undo?: (() => void) | undefined }

const MAX_TOASTS = 3
const PLAIN_MS = 5_000
const UNDO_MS = 8_000

let toasts: readonly Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

function change(next: readonly Toast[]): void {
  toasts = next
  for (const listener of listeners) listener()
}
const dismiss = (id: number) => change(toasts.filter(toast => toast.id !== id))

/**
 * Shows the result of an action, with an undo button where possible. Errors show next to their cause instead.
 */
export function toast(words: string, undo?: () => void): void {
  lastId += 1
  change([...toasts, { id: lastId, words, undo }].slice(-MAX_TOASTS))
}

function ToastItem({ id, words, undo }: Toast) {
  const { t } = useTranslation()
  useEffect(() => {
    const timer = setTimeout(() => dismiss(id), undo ? UNDO_MS : PLAIN_MS)
    return () => clearTimeout(timer)
  }, [id, undo])
  return (
    <li className="sheet flex items-center gap-3 py-1.5 pr-1.5 pl-3 shadow-float">
      <span className="grow">{words}</span>
      {undo ? (
        <Button
          isSmall
          onClick={() => {
            dismiss(id)
            undo()
          }}
        >
          {t('toast.undo')}
        </Button>
      ) : null}
      <IconButton icon={X} label={t('common.close')} onClick={() => dismiss(id)} />
    </li>
  )
}

export function Toasts() {
  const { t } = useTranslation()
  const current = useSyncExternalStore(
    listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    () => toasts,
  )
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.metaKey || event.ctrlKey) || event.shiftKey || event.key.toLowerCase() !== 'z') return
      // In a field, Ctrl Z undoes typing.
      if ((event.target as HTMLElement).closest?.('input, textarea, [contenteditable]')) return
      const last = toasts.findLast(({ undo }) => undo)
      if (!last) return
      event.preventDefault()
      dismiss(last.id)
      last.undo?.()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <section aria-label={t('toast.region')} aria-live="polite">
      <ol className="fixed inset-x-3 top-3 z-50 flex flex-col gap-2 md:top-auto md:right-6 md:bottom-6 md:left-auto md:max-w-96">
        {current.map(each => (
          <ToastItem key={each.id} {...each} />
        ))}
      </ol>
    </section>
  )
}
