import { type ReactNode, useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { IconButton } from './button.tsx'
import { classes } from './classes.ts'
import { X } from './icons.ts'

type PanelProps = {
  readonly title: ReactNode
  readonly onClose: () => void
  readonly children: ReactNode
  readonly isWide?: boolean
}

/**
 * A side panel that leaves the list behind it usable. It takes the focus when it opens and returns it when it
 * closes.
 */
export function Panel({ title, onClose, children, isWide = false }: PanelProps) {
  const { t } = useTranslation()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null
    heading.current?.focus()
    return () => before?.focus?.()
  }, [])
  return (
    <aside
      data-panel={isWide ? 'wide' : 'plain'}
      aria-label={typeof title === 'string' ? title : t('common.panel')}
      onKeyDown={event => {
        if (event.key !== 'Escape' || event.defaultPrevented) return
        const field = event.target as HTMLElement
        // In a field, Escape only leaves the field, so that it never discards typed text.
        if (/^(INPUT|TEXTAREA|SELECT)$/.test(field.tagName)) return heading.current?.focus()
        onClose()
      }}
      className={classes(
        'fixed inset-0 z-30 flex flex-col border-line bg-sheet shadow-float md:left-auto md:border-l',
        isWide ? 'min-[1680px]:shadow-none' : 'min-[1440px]:shadow-none',
        isWide ? 'md:w-[720px]' : 'md:w-[560px]',
        'md:max-w-full',
      )}
    >
      <header className="flex items-center justify-between gap-3 border-b border-line py-2 pr-2 pl-4">
        <h2 ref={heading} tabIndex={-1} className="min-w-0 truncate text-section font-semibold outline-none">
          {title}
        </h2>
        <IconButton icon={X} label={t('common.close')} onClick={onClose} />
      </header>
      <div className="grow overflow-y-auto overscroll-contain p-4">{children}</div>
    </aside>
  )
}

export function Section({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section className="flex flex-col gap-3 border-t border-line py-4 first:border-t-0 first:pt-0">
      <h3 className="text-section font-semibold">{title}</h3>
      {children}
    </section>
  )
}

/** Name and value pairs in two columns. */
export function Facts({ facts }: { readonly facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[minmax(96px,auto)_1fr] gap-x-4 gap-y-1.5 text-table">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-ink-3">{name}</dt>
          <dd className="min-w-0 break-words">{value}</dd>
        </div>
      ))}
    </dl>
  )
}
