import { type ReactNode, useEffect } from 'react'
import { classes } from './classes.ts'

type PageProps = {
  readonly title: string
  readonly actions?: ReactNode
  readonly children: ReactNode
}

/** A page: its title, its actions and its content. */
export function Page({ title, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  return (
    <div className="flex min-h-full flex-col gap-4 p-3 pb-6 md:p-4 lg:p-6">
      <header className="flex min-h-8 flex-wrap items-center justify-between gap-3">
        <h1 className="text-title font-semibold">{title}</h1>
        {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
      </header>
      {children}
    </div>
  )
}

export function Sheet({
  title,
  actions,
  className,
  children,
}: {
  title?: string
  actions?: ReactNode
  className?: string
  children: ReactNode
}) {
  return (
    <section className={classes('sheet', className)}>
      {title ? (
        <header className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2.5">
          <h2 className="text-section font-semibold">{title}</h2>
          {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
        </header>
      ) : null}
      {children}
    </section>
  )
}

/** The filters above a list. */
export const FilterBar = ({ children }: { readonly children: ReactNode }) => (
  <div className="flex flex-wrap items-end gap-2 border-b border-line p-3">{children}</div>
)
