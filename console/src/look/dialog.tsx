import { Dialog as Radix } from 'radix-ui'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { IconButton } from './button.tsx'
import { classes } from './classes.ts'
import { X } from './icons.ts'

type DialogProps = {
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly children: ReactNode
  readonly isWide?: boolean
  /** Closes only with its own buttons, because its content cannot be shown again. */
  readonly closesByButtonOnly?: boolean
}

/** A modal dialog. */
export function Dialog({
  title,
  isOpen,
  onClose,
  children,
  isWide = false,
  closesByButtonOnly = false,
}: DialogProps) {
  const { t } = useTranslation()
  // Focus the first field instead of the close button.
  const focusFirst = (event: Event) => {
    const field = (event.currentTarget as HTMLElement).querySelector<HTMLElement>('input, textarea, select')
    if (!field) return
    event.preventDefault()
    field.focus()
  }
  const hold = (event: Event) => closesByButtonOnly && event.preventDefault()
  return (
    <Radix.Root open={isOpen} onOpenChange={open => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-veil" />
        <Radix.Content
          aria-describedby={undefined}
          onOpenAutoFocus={focusFirst}
          onEscapeKeyDown={hold}
          onPointerDownOutside={hold}
          onInteractOutside={hold}
          className={classes(
            'fixed top-1/2 left-1/2 z-40 flex max-h-[92dvh] w-[calc(100vw-24px)] -translate-x-1/2 -translate-y-1/2 flex-col rounded-dialog border border-line bg-sheet shadow-float outline-none',
            isWide ? 'max-w-[640px]' : 'max-w-[480px]',
          )}
        >
          <header className="flex items-center justify-between gap-3 border-b border-line py-2 pr-2 pl-4">
            <Radix.Title className="text-section font-semibold">{title}</Radix.Title>
            {closesByButtonOnly ? null : <IconButton icon={X} label={t('common.close')} onClick={onClose} />}
          </header>
          <div className="flex flex-col gap-4 overflow-y-auto p-4">{children}</div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
