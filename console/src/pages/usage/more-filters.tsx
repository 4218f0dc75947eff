import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from '../../look/button.tsx'
import { Choice, Field, TextInput } from '../../look/field.tsx'
import { SlidersHorizontal } from '../../look/icons.ts'
import { Popup } from '../../look/popup.tsx'
import { readUsageFilters, SOURCES, type UsageFilters } from './usage-filters.ts'

const AMOUNTS = ['min_cost', 'min_ms', 'min_first_ms', 'min_attempts'] as const
const NAMES = [...AMOUNTS, 'stream', 'cached', 'source', 'upstream_model', 'ip', 'tag'] as const
const STEPS = { min_cost: 'any', min_ms: 1, min_first_ms: 1, min_attempts: 1 } as const

/** Less common filters. */
export function MoreFilters({
  filters,
  onChoose,
}: {
  readonly filters: UsageFilters
  readonly onChoose: (changes: Partial<UsageFilters>) => void
}) {
  const { t } = useTranslation()
  const [isOpen, open] = useState(false)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const fields = Object.fromEntries(new FormData(event.currentTarget))
    const parsed = readUsageFilters(fields)
    onChoose({ ...Object.fromEntries(NAMES.map(name => [name, parsed[name]])), cursor: undefined })
    open(false)
  }
  return (
    <Popup
      label={t('usage.more')}
      isOpen={isOpen}
      onOpenChange={open}
      trigger={<Button icon={SlidersHorizontal}>{t('usage.more')}</Button>}
    >
      <form onSubmit={submit} className="flex max-h-[70vh] flex-col gap-3 overflow-y-auto p-3">
        {AMOUNTS.map(name => (
          <Field key={name} label={t(`usage.at_least.${name}`)}>
            {wiring => (
              <TextInput
                {...wiring}
                name={name}
                type="number"
                min={0}
                step={STEPS[name]}
                defaultValue={filters[name] ?? ''}
              />
            )}
          </Field>
        ))}
        <Field label={t('usage.counted_by')}>
          {wiring => (
            <Choice {...wiring} name="source" defaultValue={filters.source ?? ''}>
              <option value="">{t('usage.any')}</option>
              {SOURCES.map(name => (
                <option key={name} value={name}>
                  {t(`usage.source.${name}`)}
                </option>
              ))}
            </Choice>
          )}
        </Field>
        {(['stream', 'cached'] as const).map(name => (
          <Field key={name} label={name === 'stream' ? t('usage.stream') : t('usage.line.cachedInput')}>
            {wiring => (
              <Choice {...wiring} name={name} defaultValue={filters[name] ?? ''}>
                <option value="">{t('usage.any')}</option>
                <option value="true">{t('common.yes')}</option>
                <option value="false">{t('common.no')}</option>
              </Choice>
            )}
          </Field>
        ))}
        <Field label={t('usage.upstream_model')}>
          {wiring => (
            <TextInput
              {...wiring}
              name="upstream_model"
              className="font-mono"
              defaultValue={filters.upstream_model ?? ''}
            />
          )}
        </Field>
        <Field label={t('usage.address')}>
          {wiring => <TextInput {...wiring} name="ip" defaultValue={filters.ip ?? ''} />}
        </Field>
        <Field label={t('usage.tag')}>
          {wiring => (
            <TextInput
              {...wiring}
              name="tag"
              className="font-mono"
              placeholder="project=atlas"
              defaultValue={filters.tag ?? ''}
            />
          )}
        </Field>
        <Button kind="primary" type="submit">
          {t('usage.apply')}
        </Button>
      </form>
    </Popup>
  )
}
