import type { KeyboardEvent, MouseEvent, ReactNode } from 'react'

/** A column of a list. On phones a row is a card made of the columns that have a `place`. */
export type Column<Row> = {
  readonly id: string
  readonly header: string
  readonly cell: (row: Row) => ReactNode
  readonly isRight?: boolean
  /** Hides the column when the table has less room than it has on a screen of this width. */
  readonly fromPx?: number
  readonly place?: 'title' | 'figure' | 'state' | 'note' | 'action'
}

export type Selection = {
  readonly ids: ReadonlySet<string>
  readonly onChange: (ids: ReadonlySet<string>) => void
}

export type TableProps<Row> = {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly idOf: (row: Row) => string
  readonly nameOf: (row: Row) => string
  readonly onOpen?: ((row: Row) => void) | undefined
  readonly openId?: string | undefined
  readonly selection?: Selection
  /** The rows belong to the previous query. They are dimmed until the new ones arrive. */
  readonly isStale?: boolean
}

const INTERACTIVE = 'a, button, input, select, textarea, label, [role="menuitem"], [role="switch"]'
/** False for events of a control inside the row. */
export const isForRow = ({ target }: MouseEvent | KeyboardEvent) =>
  !(target as HTMLElement).closest(INTERACTIVE)
