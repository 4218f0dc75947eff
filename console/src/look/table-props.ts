import type { KeyboardEvent, MouseEvent, ReactNode } from 'react'

/** A column of a list. On phones a row is two lines, made of the columns that have a place there. */
export type Column<Row> = {
  readonly id: string
  readonly header: string
  readonly cell: (row: Row) => ReactNode
  readonly isRight?: boolean
  /** Left out on screens narrower than this, in pixels, or where as much room is taken by a panel: low-value columns go first. */
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
  /** The rows in sight belong to the question before: they stay, paler, until the answer is there. */
  readonly isStale?: boolean
}

const INTERACTIVE = 'a, button, input, select, textarea, label, [role="menuitem"], [role="switch"]'
/** A click on a control inside a row is meant for the control. */
export const isForRow = ({ target }: MouseEvent | KeyboardEvent) =>
  !(target as HTMLElement).closest(INTERACTIVE)
