import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { Checkbox } from './field.tsx'
import { Columns3 } from './icons.ts'
import { Popup } from './popup.tsx'
import { setPreferences, usePreferences } from './preferences.ts'
import type { Column } from './table-props.ts'

/** A column that can be shown or hidden; `isExtra` hides it by default. */
export type OptionalColumn<Row> = Column<Row> & { readonly isExtra?: boolean }

/** The visible columns of a table. A chosen column shows at every screen width. */
export function useColumns<Row>(table: string, all: readonly OptionalColumn<Row>[]): readonly Column<Row>[] {
  const chosen = usePreferences().columns[table]
  if (!chosen) return all.filter(({ isExtra }) => !isExtra)
  return all.filter(({ id }) => chosen.includes(id)).map(({ fromPx: _any, ...column }) => column)
}

type ColumnChoiceProps<Row> = { readonly table: string; readonly all: readonly OptionalColumn<Row>[] }

export function ColumnChoice<Row>({ table, all }: ColumnChoiceProps<Row>) {
  const { t } = useTranslation()
  const { columns } = usePreferences()
  const chosen = columns[table] ?? all.filter(({ isExtra }) => !isExtra).map(({ id }) => id)
  const choose = (ids: readonly string[] | undefined) => {
    const { [table]: _before, ...others } = columns
    setPreferences({ columns: ids ? { ...others, [table]: ids } : others })
  }
  return (
    <Popup label={t('table.columns')} trigger={<Button icon={Columns3}>{t('table.columns')}</Button>}>
      <ul className="flex max-h-80 flex-col gap-1 overflow-y-auto p-3">
        {all.map(({ id, header }) => (
          <li key={id}>
            <Checkbox
              label={header}
              checked={chosen.includes(id)}
              disabled={chosen.length === 1 && chosen.includes(id)}
              onChange={event =>
                choose(event.target.checked ? [...chosen, id] : chosen.filter(other => other !== id))
              }
            />
          </li>
        ))}
      </ul>
      <div className="border-t border-line p-2">
        <Button kind="quiet" onClick={() => choose(undefined)}>
          {t('table.columns_reset')}
        </Button>
      </div>
    </Popup>
  )
}
