import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useId, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { callQuery, useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { useExclusionReason } from '../../look/exclusion-reason.ts'
import { TextInput } from '../../look/field.tsx'
import { useFilters } from '../../look/filters.tsx'
import { span } from '../../look/format.ts'
import { FilterBar, Sheet } from '../../look/page.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { StatusIcon } from '../../look/status-badge.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'
import type { ModelFilters } from './model-filters.ts'
import { NetworkNote } from './network-note.tsx'

/** The route that a request for a model would take. No request is sent. */
function Cascade({ model }: { readonly model: string }) {
  const { t } = useTranslation()
  const why = useExclusionReason()
  const result = useQuery(callQuery('explainRoute', { body: { model } }))
  const plan = result.data
  const tiers = [...Map.groupBy(plan?.steps ?? [], ({ priority }) => priority)]
  return (
    <Part result={result}>
      {plan && plan.steps.length === 0 ? (
        <Empty title={plan.served_as === null ? t('route.unknown') : t('route.none_available')}>
          {plan.price === null && plan.served_as !== null ? <p>{t('route.no_price')}</p> : null}
        </Empty>
      ) : null}
      {plan && plan.steps.length > 0 ? (
        <div className="flex flex-col gap-4 p-4">
          <p>
            {plan.served_as === model ? t('route.served') : t('route.served_as', { model: plan.served_as })}{' '}
            {plan.price ? t('route.priced', { model: plan.price.model }) : ''} {t('route.not_sent')}
          </p>
          <ol className="flex flex-col gap-3">
            {tiers.map(([priority, steps], index) => (
              <li key={priority} style={{ marginInlineStart: `${Math.min(index, 4) * 20}px` }}>
                <h2 className="pb-1 text-label text-ink-3">
                  {t('route.tier', { number: index + 1, priority })}
                </h2>
                <ul className="flex flex-col rounded-control border border-line divide-y divide-line">
                  {steps.map(step => (
                    <li key={step.channel_id} className="flex flex-wrap items-center gap-3 px-3 py-2">
                      <StatusIcon state={step.is_trial ? 'cooling_down' : 'enabled'} />
                      <Link to="/channels/$id" params={{ id: String(step.channel_id) }}>
                        {step.channel_name}
                      </Link>
                      {step.sent_model === model ? null : (
                        <span className="font-mono text-code text-ink-2">→ {step.sent_model}</span>
                      )}
                      {step.is_trial ? <span className="text-rest">{t('route.trial')}</span> : null}
                      <NetworkNote network={step.network} />
                      <span className="ml-auto text-label text-ink-3">
                        {t('route.key', { number: step.key_index + 1 })}
                      </span>
                    </li>
                  ))}
                </ul>
              </li>
            ))}
          </ol>
        </div>
      ) : null}
      {plan && plan.passed_over.length > 0 ? (
        <ul className="flex flex-col gap-1 border-t border-line p-4 text-table text-ink-2">
          {plan.passed_over.map(({ channel_id, channel_name, reason, again_in_ms, detail, network }) => (
            <li key={channel_id} className="break-words">
              <Link to="/channels/$id" params={{ id: String(channel_id) }}>
                {channel_name || `#${channel_id}`}
              </Link>
              {`: ${why(reason)}`}
              {again_in_ms === null ? '' : ` · ${t('route.again', { time: span(again_in_ms) })}`}
              <NetworkNote network={network} />
              {detail ? (
                <span className="text-bad">
                  {' · '}
                  <GatewayText text={detail} />
                </span>
              ) : null}
            </li>
          ))}
        </ul>
      ) : null}
    </Part>
  )
}

export function RouteView() {
  const { t } = useTranslation()
  const list = useId()
  const [{ route }, setFilters] = useFilters<ModelFilters>()
  const models = useCall('listUsableModels', {})
  const [text, setText] = useState(route ?? '')
  return (
    <Sheet>
      <form
        onSubmit={event => {
          event.preventDefault()
          setFilters({ route: text.trim() || undefined })
        }}
      >
        <FilterBar>
          <span className="w-full sm:w-80">
            <TextInput
              data-page-filter
              aria-label={t('route.model')}
              placeholder={t('route.model')}
              list={list}
              className="font-mono"
              value={text}
              onChange={event => setText(event.target.value)}
            />
          </span>
          <Button type="submit" kind="primary">
            {t('route.show')}
          </Button>
        </FilterBar>
      </form>
      <datalist id={list}>
        {models.data?.map(model => (
          <option key={model} value={model} />
        ))}
      </datalist>
      {route ? <Cascade model={route} /> : <Empty title={t('route.choose')}>{t('route.help')}</Empty>}
    </Sheet>
  )
}
