import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { Secret } from '../../look/secret.tsx'
import { Snippets } from '../../look/snippets.tsx'
import { TokenFields } from './token-fields.tsx'
import { bodyOf, newValues, type TokenValues } from './token-values.ts'

/** Shows the key of a new token. */
function CreatedToken({ token, onClose }: { readonly token: Token; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const usable = useCall('listUsableModels', {})
  const model = (token.model_limits_enabled ? token.models : usable.data)?.[0] ?? t('tokens.some_model')
  return (
    <Dialog
      title={t('tokens.created', { name: token.name })}
      isOpen
      isWide
      closesByButtonOnly
      onClose={onClose}
    >
      <Secret label={t('tokens.key')} value={token.key} canReveal />
      <Snippets apiKey={token.key} model={model} />
      <div className="flex justify-end">
        <Button kind="primary" onClick={onClose}>
          {t('tokens.done')}
        </Button>
      </div>
    </Dialog>
  )
}

export function NewToken() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const self = useSelf()
  const [created, setCreated] = useState<Token>()
  const close = () => void navigate({ to: '/tokens', search: true })
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'createToken', TokenValues>({
    route: 'createToken',
    defaults: newValues(self.unlimited_quota ? 'none' : 'amount'),
    toInput: values => ({ body: bodyOf(values) }),
    onDone: setCreated,
    names: { remain_quota: 'amount', expired_time: 'date', model_limits: 'models', limits: 'rpm' },
  })
  if (created) return <CreatedToken token={created} onClose={close} />
  return (
    <FormDialog
      title={t('tokens.create')}
      isWide
      verb={t('tokens.create')}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={close}
    >
      <TokenFields form={form} errorOf={errorOf} />
    </FormDialog>
  )
}
