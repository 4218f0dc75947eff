import {
  columnVisibilityFeature,
  createColumnHelper,
  type RowData,
  rowSelectionFeature,
  tableFeatures,
  useTable,
} from '@tanstack/react-table'
import { type KeyboardEvent, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { RowCards } from './cards.tsx'
import { classes } from './classes.ts'
import { isForRow, type TableProps } from './table-props.ts'
import { useIsNarrow } from './use-media.ts'

const PINNED = 'sticky right-0 bg-inherit'
/** Block layout, because the baseline of inline layout would shift the checkbox. */
const BOX = 'block size-4 accent-accent'

const features = tableFeatures({ columnVisibilityFeature, rowSelectionFeature })
const WIDTHS = [900, 1100, 1280, 1500] as const

/** Width of the menu and the page margins on a wide screen. */
const AROUND_PX = 260

/** The largest step of `WIDTHS` that the room of the table corresponds to. */
function useWidthStep() {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(() => innerWidth)
  useLayoutEffect(() => {
    if (!box.current) return
    const measure = ([entry]: readonly Pick<ResizeObserverEntry, 'contentRect'>[]) =>
      entry && setWidth(entry.contentRect.width + AROUND_PX)
    measure([{ contentRect: box.current.getBoundingClientRect() }])
    const observer = new ResizeObserver(measure)
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  return { box, width: WIDTHS.findLast(each => each <= width) ?? 0 }
}

type RowActions = { open(): void; select(): void; selectRange(): void; selectAll(): void }

/**
 * Arrow keys, j and k move between rows. Enter and Space open a row. x selects it, Shift x selects a range,
 * Ctrl A selects the page.
 */
function moveBetweenRows(event: KeyboardEvent<HTMLTableRowElement>, act: RowActions): void {
  if (!isForRow(event) || event.nativeEvent.isComposing) return
  if (event.metaKey || event.ctrlKey) {
    if (event.key !== 'a') return
    event.preventDefault()
    act.selectAll()
    return
  }
  const row = event.currentTarget
  const steps: Record<string, () => void> = {
    ArrowDown: () => (row.nextElementSibling as HTMLElement | null)?.focus(),
    ArrowUp: () => (row.previousElementSibling as HTMLElement | null)?.focus(),
    Enter: act.open,
    ' ': act.open,
    x: act.select,
    X: act.selectRange,
  }
  steps.j = steps.ArrowDown as () => void
  steps.k = steps.ArrowUp as () => void
  const step = steps[event.key]
  if (!step) return
  event.preventDefault()
  step()
}

export function DataTable<Row extends RowData>(props: TableProps<Row>) {
  return useIsNarrow() ? <RowCards {...props} /> : <WideTable {...props} />
}

function WideTable<Row extends RowData>({
  label,
  columns,
  rows,
  idOf,
  nameOf,
  onOpen,
  openId,
  selection,
  isStale = false,
}: TableProps<Row>) {
  const { t } = useTranslation()
  const { box, width } = useWidthStep()
  const helper = useMemo(() => createColumnHelper<typeof features, Row>(), [])
  const defined = useMemo(
    () =>
      columns.map(({ id, header, cell }) =>
        helper.display({ id, header, cell: ({ row }) => cell(row.original) }),
      ),
    [columns, helper],
  )
  const table = useTable({
    features,
    columns: defined,
    data: rows as Row[],
    getRowId: idOf,
    state: {
      columnVisibility: Object.fromEntries(columns.map(({ id, fromPx = 0 }) => [id, fromPx <= width])),
      rowSelection: Object.fromEntries([...(selection?.ids ?? [])].map(id => [id, true as const])),
    },
    onRowSelectionChange: update => {
      const before = Object.fromEntries([...(selection?.ids ?? [])].map(id => [id, true as const]))
      const after = typeof update === 'function' ? update(before) : update
      selection?.onChange(new Set(Object.keys(after).filter(id => after[id])))
    },
  })
  const anchor = useRef(0)
  const visibleRows = table.getRowModel().rows
  const toggle = (row: (typeof visibleRows)[number]) => {
    anchor.current = visibleRows.indexOf(row)
    row.toggleSelected()
  }
  const selectTo = (index: number) => {
    const [first, last] = [Math.min(anchor.current, index), Math.max(anchor.current, index)]
    const between = visibleRows.slice(first, last + 1).map(({ id }) => id)
    selection?.onChange(new Set([...selection.ids, ...between]))
  }
  // The actions of a row stay visible in a wide table.
  const pinned = columns.find(({ place }) => place === 'action')?.id
  const isRight = new Set(columns.filter(column => column.isRight).map(({ id }) => id))

  return (
    <div ref={box} className="@container overflow-x-auto">
      <table
        aria-label={label}
        className={classes('w-full border-collapse text-table', isStale && 'opacity-60')}
      >
        <thead className="sticky top-0 z-10 bg-sheet">
          {table.getHeaderGroups().map(group => (
            <tr key={group.id} className="border-b border-line bg-sheet">
              {selection ? (
                <th scope="col" className="w-9 pl-3 text-left">
                  <input
                    type="checkbox"
                    aria-label={t('table.select_all')}
                    className={BOX}
                    checked={table.getIsAllRowsSelected()}
                    onChange={event => table.toggleAllRowsSelected(event.target.checked)}
                  />
                </th>
              ) : null}
              {group.headers.map(header => (
                <th
                  key={header.id}
                  scope="col"
                  className={classes(
                    'h-8 px-3 text-label font-medium whitespace-nowrap text-ink-3',
                    isRight.has(header.id) ? 'text-right' : 'text-left',
                    header.id === pinned && PINNED,
                  )}
                >
                  <table.FlexRender header={header} />
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody data-rows>
          {visibleRows.map((row, index) => {
            const open = () => onOpen?.(row.original)
            const isSelected = row.getIsSelected()
            return (
              <tr
                key={row.id}
                data-id={row.id}
                tabIndex={index === 0 ? 0 : -1}
                aria-selected={selection ? isSelected : undefined}
                onClick={event => isForRow(event) && open()}
                onKeyDown={event =>
                  moveBetweenRows(event, {
                    open,
                    select: () => toggle(row),
                    selectRange: () => selectTo(index),
                    selectAll: () => selection && table.toggleAllRowsSelected(true),
                  })
                }
                className={classes(
                  'h-(--row) border-b border-line outline-offset-[-2px]',
                  onOpen && 'cursor-pointer',
                  isSelected || openId === row.id
                    ? 'bg-accent-soft shadow-[inset_2px_0_0_var(--accent)]'
                    : classes('bg-sheet', onOpen && 'hover:bg-sunken'),
                )}
              >
                {selection ? (
                  <td className="w-9 pl-3">
                    <input
                      type="checkbox"
                      aria-label={t('table.select', { name: nameOf(row.original) })}
                      className={BOX}
                      checked={isSelected}
                      onChange={() => toggle(row)}
                    />
                  </td>
                ) : null}
                {row.getVisibleCells().map(cell => (
                  <td
                    key={cell.id}
                    className={classes(
                      'max-w-80 px-3 py-1',
                      isRight.has(cell.column.id) && 'text-right whitespace-nowrap',
                      cell.column.id === pinned && PINNED,
                    )}
                  >
                    <table.FlexRender cell={cell} />
                  </td>
                ))}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
