import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button, IconButton } from '../../look/button.tsx'
import { Choice, Field, TextInput } from '../../look/field.tsx'
import { CalendarRange } from '../../look/icons.ts'
import { Popup } from '../../look/popup.tsx'
import { fromDateField, toDateField, zone } from '../../look/zone.ts'
import type { RangeName } from './range.ts'

export type TimeRange = { readonly from: number; readonly to: number }

type RangeChoiceProps = {
  readonly names: readonly RangeName[]
  /** The selected range, or undefined when a custom one is set. */
  readonly range: RangeName | undefined
  readonly timeRange: TimeRange | undefined
  readonly onRange: (range: RangeName) => void
  readonly onTimeRange: (timeRange: TimeRange) => void
}

const DAY_S = 86_400
/** The gateway's limit for points of a chart by day. */
const MAX_DAYS = 180

/** Selects a named range or a custom one. */
export function RangeChoice({ names, range, timeRange, onRange, onTimeRange }: RangeChoiceProps) {
  const { t } = useTranslation()
  return (
    <span className="flex items-center gap-1">
      <Choice
        aria-label={t('usage.range')}
        value={range ?? ''}
        onChange={event => event.target.value && onRange(event.target.value as RangeName)}
      >
        {range === undefined ? <option value="">{t('usage.custom')}</option> : null}
        {names.map(name => (
          <option key={name} value={name}>
            {t(`range.${name}`)}
          </option>
        ))}
      </Choice>
      <Moments timeRange={timeRange} onTimeRange={onTimeRange} />
    </span>
  )
}

function Moments({ timeRange, onTimeRange }: Pick<RangeChoiceProps, 'timeRange' | 'onTimeRange'>) {
  const { t } = useTranslation()
  const [isOpen, open] = useState(false)
  const [isWrong, setWrong] = useState(false)
  const now = Math.floor(Date.now() / 1000)
  const { from, to } = timeRange ?? { from: now - DAY_S, to: now }
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget)
    const [first, last] = [fromDateField(String(fields.get('from'))), fromDateField(String(fields.get('to')))]
    const isRange =
      first !== undefined && last !== undefined && first < last && last - first <= MAX_DAYS * DAY_S
    setWrong(!isRange)
    if (!isRange) return
    onTimeRange({ from: first, to: last })
    open(false)
  }
  return (
    <Popup
      label={t('usage.choose_range')}
      isOpen={isOpen}
      onOpenChange={isNow => {
        open(isNow)
        setWrong(false)
      }}
      trigger={<IconButton icon={CalendarRange} label={t('usage.choose_range')} />}
    >
      <form onSubmit={submit} className="flex flex-col gap-3 p-3">
        <Field label={t('usage.from')}>
          {wiring => (
            <TextInput
              {...wiring}
              name="from"
              type="datetime-local"
              required
              defaultValue={toDateField(from)}
            />
          )}
        </Field>
        <Field
          label={t('usage.to')}
          help={zone()}
          error={isWrong ? t('usage.range_invalid', { days: MAX_DAYS }) : undefined}
        >
          {wiring => (
            <TextInput {...wiring} name="to" type="datetime-local" required defaultValue={toDateField(to)} />
          )}
        </Field>
        <Button type="submit" kind="primary">
          {t('usage.show_range')}
        </Button>
      </form>
    </Popup>
  )
}
