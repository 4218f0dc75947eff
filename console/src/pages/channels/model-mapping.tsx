import { useTranslation } from 'react-i18next'
import { Button, IconButton } from '../../look/button.tsx'
import { TextInput } from '../../look/field.tsx'
import { ArrowRight, Plus, Trash2 } from '../../look/icons.ts'

export type MappingRow = { readonly from: string; readonly to: string }

type ModelMappingProps = {
  readonly rows: readonly MappingRow[]
  readonly onChange: (rows: readonly MappingRow[]) => void
  readonly error?: string | undefined
}

/** Maps requested model names to the names that the provider knows. */
export function ModelMapping({ rows, onChange, error }: ModelMappingProps) {
  const { t } = useTranslation()
  const set = (at: number, change: Partial<MappingRow>) =>
    onChange(rows.map((row, index) => (index === at ? { ...row, ...change } : row)))
  const isDuplicate = ({ from }: MappingRow) =>
    from !== '' && rows.filter(row => row.from === from).length > 1
  return (
    <div data-field="model_mapping" className="flex flex-col gap-2">
      {rows.length > 0 ? (
        <div
          className="grid grid-cols-[1fr_auto_1fr_auto] items-center gap-2 text-label text-ink-3"
          aria-hidden="true"
        >
          <span>{t('mapping.requested')}</span>
          <span className="w-4" />
          <span>{t('mapping.upstream')}</span>
          <span className="w-8" />
        </div>
      ) : null}
      {rows.map((row, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place
        <div key={index} className="grid grid-cols-[1fr_auto_1fr_auto] items-center gap-2">
          <TextInput
            aria-label={t('mapping.requested')}
            aria-invalid={isDuplicate(row) || undefined}
            className="font-mono"
            value={row.from}
            onChange={event => set(index, { from: event.target.value })}
          />
          <ArrowRight size={16} aria-hidden className="text-ink-3" />
          <TextInput
            data-focus
            aria-label={t('mapping.upstream')}
            className="font-mono"
            value={row.to}
            onChange={event => set(index, { to: event.target.value })}
          />
          <IconButton
            icon={Trash2}
            label={t('mapping.remove', { name: row.from || String(index + 1) })}
            onClick={() => onChange(rows.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      {rows.some(isDuplicate) ? <p className="text-label text-bad">{t('mapping.duplicate')}</p> : null}
      {error ? (
        <p role="alert" className="text-label text-bad">
          {error}
        </p>
      ) : null}
      <Button
        isSmall
        icon={Plus}
        className="self-start"
        onClick={() => onChange([...rows, { from: '', to: '' }])}
      >
        {t('mapping.add')}
      </Button>
    </div>
  )
}
