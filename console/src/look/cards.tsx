import { classes } from './classes.ts'
import { type Column, isForRow, type TableProps } from './table-props.ts'

/** A list on a phone: a card of two lines per row. */
export function RowCards<Row>({
  label,
  columns,
  rows,
  idOf,
  nameOf,
  onOpen,
  openId,
  isStale = false,
}: TableProps<Row>) {
  const at = (place: NonNullable<Column<Row>['place']>, row: Row) =>
    columns
      .filter(column => column.place === place)
      .map(column => (
        <span key={column.id} className="min-w-0">
          {column.cell(row)}
        </span>
      ))
  return (
    <ul aria-label={label} className={classes('flex flex-col', isStale && 'opacity-60')}>
      {rows.map(row => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the title inside is a button for the keyboard
        <li
          key={idOf(row)}
          onClick={event => isForRow(event) && onOpen?.(row)}
          className={classes(
            'flex min-h-14 flex-col gap-1 border-b border-line px-3 py-2',
            openId === idOf(row) && 'bg-accent-soft',
          )}
        >
          <div className="flex items-center justify-between gap-3">
            <div className="flex min-w-0 items-center gap-2 font-medium">
              {onOpen ? (
                // The button covers the title instead of wrapping it: a title may contain a link, and a button
                // must not.
                <div className="relative min-h-6 min-w-0">
                  <button
                    type="button"
                    onClick={() => onOpen(row)}
                    aria-label={nameOf(row)}
                    className="absolute inset-0"
                  />
                  <div className="pointer-events-none relative truncate [&_a]:pointer-events-auto">
                    {at('title', row)}
                  </div>
                </div>
              ) : (
                at('title', row)
              )}
            </div>
            <div className="flex shrink-0 gap-3 text-right">{at('figure', row)}</div>
          </div>
          <div className="flex items-center justify-between gap-3 text-table text-ink-2">
            <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1">
              {at('state', row)}
              {at('note', row)}
            </div>
            <div className="flex shrink-0 items-center gap-1">{at('action', row)}</div>
          </div>
        </li>
      ))}
    </ul>
  )
}
