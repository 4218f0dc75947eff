import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { resetToSaved, useContractForm } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { FormError } from '../../look/form-error.tsx'
import { moneyOfSpan } from '../../look/format.ts'
import { Eye, EyeOff } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { Snippets } from '../../look/snippets.tsx'
import { Part, useErrorText } from '../../look/states.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import { toast } from '../../look/toast.tsx'
import { useLinkedField } from '../../look/use-linked-field.ts'
import { useRevealedSecret } from '../../look/use-revealed-secret.ts'
import { TokenFields } from './token-fields.tsx'
import { TokenMenu } from './token-menu.tsx'
import { lastUse, statusOf } from './token-state.ts'
import { changesOf, type TokenValues, valuesOf } from './token-values.ts'

/** The full key on request. Revealing it is audited. */
function RevealKey({ token }: { readonly token: Token }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const reveal = useRouteMutation('revealToken')
  const usable = useCall('listUsableModels', {})
  const [key, setKey] = useRevealedSecret()
  const model = (token.model_limits_enabled ? token.models : usable.data)?.[0] ?? t('tokens.some_model')
  return (
    <Section title={t('tokens.key')}>
      <Button
        className="self-start"
        icon={key === undefined ? Eye : EyeOff}
        isBusy={reveal.isPending}
        onClick={async () => {
          if (key !== undefined) return setKey(undefined)
          const answer = await reveal.mutateAsync({ params: { id: token.id } }).catch(() => undefined)
          setKey(answer?.key)
          // Remove the secret from the query cache.
          if (answer) reveal.reset()
        }}
      >
        {key === undefined ? t('reveal.show') : t('reveal.hide')}
      </Button>
      <p className="text-label text-ink-3">{t('reveal.recorded')}</p>
      {reveal.error ? <p className="text-bad">{words(reveal.error)}</p> : null}
      {key === undefined ? null : <Snippets apiKey={key} model={model} />}
    </Section>
  )
}

function Editor({ token }: { readonly token: Token }) {
  const { t } = useTranslation()
  useLinkedField()
  const [before, setBefore] = useState(() => valuesOf(token))
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'updateToken', TokenValues>({
    route: 'updateToken',
    defaults: before,
    toInput: values => ({ body: { id: token.id, ...changesOf(values, before) } }),
    onDone: (_answer, values) => {
      resetToSaved(form, values)
      setBefore(values)
      toast(t('editor.saved', { name: values.name }))
    },
    names: { remain_quota: 'amount', expired_time: 'date', model_limits: 'models', limits: 'rpm' },
  })
  return (
    <Section title={t('common.edit')}>
      <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
        <TokenFields form={form} errorOf={errorOf} expires={token.expired_time} />
        <FormError words={fault} />
        <Button type="submit" kind="primary" className="self-end" isBusy={isBusy}>
          {t('common.save')}
        </Button>
      </form>
    </Section>
  )
}

export function TokenPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const self = useSelf()
  const { id = '0' } = useParams({ strict: false })
  const result = useCall('getToken', { params: { id } })
  const token = result.data
  const isShort =
    token !== undefined && !self.unlimited_quota && !token.unlimited_quota && self.quota < token.remain_quota
  return (
    <Panel
      title={token?.name ?? t('nav.tokens')}
      onClose={() => void navigate({ to: '/tokens', search: true })}
    >
      <Part result={result}>
        {token ? (
          <>
            <Section title={t('channels.summary')}>
              <div className="flex items-center justify-between">
                <StatusBadge state={statusOf(token)} />
                <TokenMenu token={token} />
              </div>
              <Facts
                facts={[
                  [t('tokens.spend'), moneyOfSpan(token.used_quota)],
                  [
                    t('tokens.remaining'),
                    token.unlimited_quota ? t('tokens.no_limit') : moneyOfSpan(token.remain_quota),
                  ],
                  [t('tokens.on_hold'), moneyOfSpan(token.held_quota)],
                  [t('tokens.last_used'), <Moment key="used" at={lastUse(token)} />],
                  [t('common.created'), <Moment key="made" at={token.created_time} />],
                ]}
              />
              {isShort ? <p className="text-warn">{t('tokens.balance_first')}</p> : null}
              <p className="flex flex-wrap gap-4">
                <Link to="/" search={{ token_id: token.id }}>
                  {t('channels.usage_chart')}
                </Link>
                <Link to="/usage" search={{ token_id: token.id }}>
                  {t('channels.requests')}
                </Link>
              </p>
            </Section>
            <RevealKey key={`key ${token.id}`} token={token} />
            <Editor key={`editor ${token.id}`} token={token} />
          </>
        ) : null}
      </Part>
    </Panel>
  )
}
