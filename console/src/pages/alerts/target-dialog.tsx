import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import {
  TARGET_TYPE_NAMES,
  TARGET_TYPES,
  type TargetField,
  type TargetType,
} from '../../../../src/domain/alert.ts'
import type { Language } from '../../../../src/domain/setting.ts'
import type { AlertTargetItem } from '../../api/contract.ts'
import { useSavingForm, validateBody } from '../../api/form.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Choice, Field, Switch, TextArea, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { Secret } from '../../look/secret.tsx'
import { toast } from '../../look/toast.tsx'
import { useAlertTexts } from './alert-texts.ts'

type Values = {
  name: string
  type: TargetType
  url: string
  secret: string
  bot_token: string
  chat_id: string
  to: string
  language: Language
  group_seconds: string
  isOn: boolean
}

const NEW_GROUP_S = 30

/** Secrets are empty, which keeps the stored ones. */
const valuesOf = (target: AlertTargetItem | undefined, language: Language): Values => ({
  name: target?.name ?? '',
  type: target?.type ?? 'webhook',
  url: '',
  secret: '',
  bot_token: '',
  chat_id: target?.chat_id ?? '',
  to: target?.to.join('\n') ?? '',
  language: target?.language ?? language,
  group_seconds: String(target?.group_seconds ?? NEW_GROUP_S),
  isOn: target?.enabled ?? true,
})

function bodyOf(values: Values) {
  const fields: readonly TargetField[] = TARGET_TYPES[values.type].fields
  const to = values.to.split(/[\s,;]+/).filter(address => address !== '')
  return {
    name: values.name,
    enabled: values.isOn,
    ...(fields.includes('url') && { url: values.url }),
    ...(fields.includes('secret') && { secret: values.secret }),
    ...(fields.includes('bot_token') && { bot_token: values.bot_token }),
    ...(fields.includes('chat_id') && { chat_id: values.chat_id }),
    ...(fields.includes('to') && { to }),
    language: values.language,
    group_seconds: Number(values.group_seconds),
  }
}

export function TargetDialog({
  target,
  onClose,
}: {
  readonly target: AlertTargetItem | undefined
  readonly onClose: () => void
}) {
  const { t } = useTranslation()
  const { language, typeLabel } = useAlertTexts()
  const create = useRouteMutation('createAlertTarget')
  const update = useRouteMutation('updateAlertTarget')
  const [created, setCreated] = useState<AlertTargetItem>()
  const { form, submit, errorOf, isBusy, fault } = useSavingForm<Values>({
    defaults: valuesOf(target, language),
    save: async values => {
      const body = bodyOf(values)
      const { type } = values
      if (target) {
        await validateBody('updateAlertTarget', { id: target.id, ...body })
        await update.mutateAsync({ body: { id: target.id, ...body } })
      } else {
        await validateBody('createAlertTarget', { type, ...body })
        const newTarget = await create.mutateAsync({ body: { type, ...body } })
        if (type === 'webhook' && values.secret === '') return setCreated(newTarget)
      }
      toast(t('editor.saved', { name: values.name }))
      onClose()
    },
  })
  const type = form.watch('type')
  const fields: readonly TargetField[] = TARGET_TYPES[type].fields
  /** Help for a field whose stored value is not shown. */
  const unchangedHelp = (masked: string | undefined) =>
    masked ? t('alerts.unchanged', { value: masked }) : undefined

  if (created)
    return (
      <Dialog
        title={t('editor.saved', { name: created.name })}
        isOpen
        isWide
        closesByButtonOnly
        onClose={onClose}
      >
        <Secret label={t('alerts.secret')} value={created.secret} />
        <p className="text-ink-2">{t('alerts.signature_help')}</p>
        <div className="flex justify-end">
          <Button kind="primary" onClick={onClose}>
            {t('common.close')}
          </Button>
        </div>
      </Dialog>
    )
  return (
    <FormDialog
      title={target ? t('editor.edit', { name: target.name }) : t('alerts.add_target')}
      verb={t('common.save')}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field label={t('alerts.type')} error={errorOf('type')}>
        {wiring => (
          <Choice {...wiring} {...form.register('type')} disabled={target !== undefined}>
            {TARGET_TYPE_NAMES.map(name => (
              <option key={name} value={name}>
                {typeLabel(name)}
              </option>
            ))}
          </Choice>
        )}
      </Field>
      <Field label={t('alerts.name')} error={errorOf('name')}>
        {wiring => <TextInput {...wiring} {...form.register('name')} autoComplete="off" />}
      </Field>
      {fields.includes('bot_token') ? (
        <Field
          label={t('alerts.bot_token')}
          error={errorOf('bot_token')}
          help={unchangedHelp(target?.bot_token)}
        >
          {wiring => (
            <TextInput {...wiring} {...form.register('bot_token')} className="font-mono" autoComplete="off" />
          )}
        </Field>
      ) : null}
      {fields.includes('chat_id') ? (
        <Field label={t('alerts.chat_id')} error={errorOf('chat_id')}>
          {wiring => <TextInput {...wiring} {...form.register('chat_id')} autoComplete="off" />}
        </Field>
      ) : null}
      {fields.includes('to') ? (
        <Field label={t('alerts.to')} error={errorOf('to')} help={t('alerts.to_help')}>
          {wiring => <TextArea {...wiring} {...form.register('to')} rows={3} />}
        </Field>
      ) : null}
      {fields.includes('url') ? (
        <Field
          label={t('alerts.url')}
          error={errorOf('url')}
          help={unchangedHelp(target?.url) ?? (type === 'telegram' ? t('alerts.url_telegram') : undefined)}
        >
          {wiring => (
            <TextInput {...wiring} {...form.register('url')} className="font-mono" autoComplete="off" />
          )}
        </Field>
      ) : null}
      {fields.includes('secret') ? (
        <Field
          label={t('alerts.secret')}
          error={errorOf('secret')}
          help={
            unchangedHelp(target?.secret) ??
            t(type === 'webhook' ? 'alerts.secret_webhook' : 'alerts.secret_service')
          }
        >
          {wiring => (
            <TextInput {...wiring} {...form.register('secret')} className="font-mono" autoComplete="off" />
          )}
        </Field>
      ) : null}
      <div className="flex flex-wrap gap-4">
        <Field label={t('alerts.language')} error={errorOf('language')} className="flex-1">
          {wiring => (
            <Choice {...wiring} {...form.register('language')}>
              <option value="en">English</option>
              <option value="zh-CN">简体中文</option>
            </Choice>
          )}
        </Field>
        <Field
          label={t('alerts.group')}
          error={errorOf('group_seconds')}
          help={t('alerts.group_help')}
          className="min-w-40 flex-1"
        >
          {wiring => <TextInput {...wiring} {...form.register('group_seconds')} type="number" min={0} />}
        </Field>
      </div>
      <Switch
        label={t('status.enabled')}
        isOn={form.watch('isOn')}
        onChange={isOn => form.setValue('isOn', isOn)}
      />
    </FormDialog>
  )
}
