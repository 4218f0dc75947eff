import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { RATES, TOKEN_RATES, TOOLS_ALONE } from '../../../../src/manage/contract/constants.ts'
import type { PriceItem } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { Field, TextInput } from '../../look/field.tsx'
import { FormError } from '../../look/form-error.tsx'
import { price as priceWords } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Panel, Section } from '../../look/panel.tsx'
import { Part } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { PriceExample } from './price-example.tsx'

type Tool = (typeof TOOLS_ALONE)[number]
type Rate = (typeof RATES)[number] | Tool
/** The current price: rates and limit, which the form edits, and parts that it passes on unchanged. */
type CurrentPrice = Pick<
  Partial<PriceItem>,
  (typeof RATES)[number] | 'tools' | 'max_output_tokens' | 'tiers' | 'variants' | 'unit_note'
>
type Values = { model: string; max_output_tokens: string } & Record<Rate, string>

const COMMON_RATES: readonly Rate[] = ['input', 'output', 'cached_input', 'per_call']

const valuesOf = (model: string, current: CurrentPrice | undefined): Values => ({
  model,
  max_output_tokens: String(current?.max_output_tokens ?? ''),
  ...(Object.fromEntries([
    ...RATES.map(rate => [rate, String(current?.[rate] ?? '')]),
    ...TOOLS_ALONE.map(tool => [tool, String(current?.tools?.[tool] ?? '')]),
  ]) as Record<Rate, string>),
})

const ratesOf = (rates: readonly Rate[], values: Values) =>
  Object.fromEntries(rates.filter(rate => values[rate] !== '').map(rate => [rate, Number(values[rate])]))

/** Maps errors of tool prices to their fields. */
const TOOL_FIELDS = Object.fromEntries(TOOLS_ALONE.map(tool => [`tools.${tool}`, tool]))

/** A new version replaces the whole price, so it includes the parts that the form does not show. */
const versionOf = (values: Values, current: CurrentPrice | undefined) => ({
  ...ratesOf(RATES, values),
  tools: ratesOf(TOOLS_ALONE, values),
  ...(values.max_output_tokens === '' ? {} : { max_output_tokens: Number(values.max_output_tokens) }),
  tiers: current?.tiers && [...current.tiers],
  variants: current?.variants && [...current.variants],
  unit_note: current?.unit_note,
})

function PriceForm({
  model,
  current,
  onClose,
}: {
  model: string
  current: CurrentPrice | undefined
  onClose: () => void
}) {
  const { t } = useTranslation()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'createPrice', Values>({
    route: 'createPrice',
    defaults: valuesOf(model, current),
    names: TOOL_FIELDS,
    toInput: values => ({ body: { model: values.model, ...versionOf(values, current) } }),
    onDone: saved => {
      toast(t('prices.saved', { model: saved.model }))
      onClose()
    },
  })
  const unchanged = (current?.tiers?.length ?? 0) + (current?.variants?.length ?? 0)
  const rateField = (rate: Rate) => (
    <Field
      key={rate}
      label={
        <span className="inline-block first-letter:uppercase">
          {t(`rate.${rate}`)}
          {(TOKEN_RATES as readonly string[]).includes(rate) ? ` · ${t('prices.per_million')}` : ''}
        </span>
      }
      error={errorOf(rate)}
    >
      {wiring => (
        <TextInput
          {...wiring}
          {...form.register(rate)}
          type="number"
          min={0}
          step="any"
          placeholder={t('prices.not_priced')}
        />
      )}
    </Field>
  )
  return (
    <Section title={t('prices.new_version')}>
      <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
        <Field label={t('prices.model')} error={errorOf('model')}>
          {wiring => (
            <TextInput
              {...wiring}
              {...form.register('model')}
              className="font-mono"
              readOnly={model !== ''}
            />
          )}
        </Field>
        <div className="grid grid-cols-2 gap-3">{COMMON_RATES.map(rateField)}</div>
        <p className="text-label text-ink-3">{t('prices.zero')}</p>
        <PriceExample price={versionOf(form.watch(), current)} />
        <details>
          <summary className="font-medium">{t('prices.more')}</summary>
          <div className="grid grid-cols-2 gap-3 pt-3">
            {RATES.filter(rate => !COMMON_RATES.includes(rate)).map(rateField)}
            {TOOLS_ALONE.map(rateField)}
            <Field label={t('prices.max_output')} error={errorOf('max_output_tokens')}>
              {wiring => (
                <TextInput {...wiring} {...form.register('max_output_tokens')} type="number" min={1} />
              )}
            </Field>
          </div>
        </details>
        {unchanged > 0 ? (
          <p className="text-label text-ink-3">{t('prices.tiers_unchanged', { count: unchanged })}</p>
        ) : null}
        <FormError words={fault} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button type="submit" kind="primary" isBusy={isBusy}>
            {t('prices.save')}
          </Button>
        </div>
      </form>
    </Section>
  )
}

function History({ model }: { readonly model: string }) {
  const { t } = useTranslation()
  const history = useCall('listPriceHistory', { query: { model, page_size: 50 } })
  const remove = useRouteMutation('deletePrice')
  const [isEnding, setEnding] = useState<number>()
  const rows = history.data?.items ?? []
  const current = rows.find(({ ended_time }) => ended_time === null)
  return (
    <Section title={t('prices.history')}>
      <Part result={history}>
        {rows.length === 0 ? <p className="text-ink-3">{t('prices.no_history')}</p> : null}
        <ul className="flex flex-col gap-2 text-table">
          {rows.map(row => (
            <li key={row.version} className="flex flex-wrap gap-x-4">
              <span className="font-medium">{t('prices.version', { version: row.version })}</span>
              <Moment at={row.effective_time} />
              <span className="text-ink-2">{row.author?.username}</span>
              <span>
                {[
                  ...RATES.map(rate => [rate, row[rate]] as const),
                  ...TOOLS_ALONE.map(tool => [tool, row.tools?.[tool]] as const),
                ]
                  .filter(([, usd]) => usd !== undefined)
                  .map(([rate, usd]) => `${t(`rate.${rate}`)} ${priceWords(usd)}`)
                  .join(' · ')}
              </span>
              {row.ended_time === null ? null : <span className="text-ink-3">{t('prices.ended')}</span>}
            </li>
          ))}
        </ul>
        {current?.id ? (
          <Button className="self-start" onClick={() => setEnding(current.id ?? undefined)}>
            {t('prices.reset')}
          </Button>
        ) : null}
      </Part>
      {isEnding === undefined ? null : (
        <Confirm
          title={t('prices.reset_title', { model })}
          effect={t('prices.reset_effect')}
          verb={t('prices.reset')}
          onClose={() => setEnding(undefined)}
          onConfirm={() => remove.mutateAsync({ params: { id: isEnding } })}
        />
      )}
    </Section>
  )
}

export function PricePanel({ model, onClose }: { readonly model: string; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const prices = useCall('listPrices', { query: { model, page_size: 1 } }, { enabled: model !== '' })
  const isReady = model === '' || prices.data !== undefined
  return (
    <Panel title={model || t('prices.set')} onClose={onClose}>
      {isReady ? (
        <PriceForm
          model={model}
          current={model === '' ? undefined : prices.data?.items[0]}
          onClose={onClose}
        />
      ) : (
        <Part result={prices}>{null}</Part>
      )}
      {model === '' ? null : <History model={model} />}
    </Panel>
  )
}
