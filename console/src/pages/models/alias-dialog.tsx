import { useId } from 'react'
import { useTranslation } from 'react-i18next'
import type { Alias } from '../../api/contract.ts'
import { useSavingForm, validateBody } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Field, Switch, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { toast } from '../../look/toast.tsx'

type Values = { name: string; target: string; channel_ids: string; isOn: boolean }

const idsOf = (text: string) =>
  text
    .split(/[\s,#]+/)
    .filter(part => part !== '')
    .map(Number)

export function AliasDialog({
  alias,
  onClose,
}: {
  readonly alias: Alias | undefined
  readonly onClose: () => void
}) {
  const { t } = useTranslation()
  const list = useId()
  const create = useRouteMutation('createAlias')
  const update = useRouteMutation('updateAlias')
  const models = useCall('listEnabledModels', {})
  const { form, submit, errorOf, isBusy, fault } = useSavingForm<Values>({
    defaults: {
      name: alias?.name ?? '',
      target: alias?.target ?? '',
      channel_ids: alias?.channel_ids?.join(', ') ?? '',
      isOn: alias ? alias.status === 1 : true,
    },
    save: async ({ name, target, channel_ids, isOn }) => {
      const body = {
        name,
        target,
        channel_ids: idsOf(channel_ids),
        status: isOn ? (1 as const) : (2 as const),
      }
      await validateBody('createAlias', body)
      await (alias ? update.mutateAsync({ body: { id: alias.id, ...body } }) : create.mutateAsync({ body }))
      toast(t('editor.saved', { name }))
      onClose()
    },
  })
  const name = form.watch('name')
  const isHiding = alias?.name !== name && models.data?.includes(name.trim())
  return (
    <FormDialog
      title={alias ? t('editor.edit', { name: alias.name }) : t('aliases.add')}
      verb={t('common.save')}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field
        label={t('aliases.name')}
        error={errorOf('name')}
        help={isHiding ? <span className="text-warn">{t('aliases.hides')}</span> : t('aliases.name_help')}
      >
        {wiring => (
          <TextInput {...wiring} {...form.register('name')} className="font-mono" autoComplete="off" />
        )}
      </Field>
      <Field label={t('aliases.target')} error={errorOf('target')} help={t('aliases.target_help')}>
        {wiring => (
          <TextInput
            {...wiring}
            {...form.register('target')}
            list={list}
            className="font-mono"
            autoComplete="off"
          />
        )}
      </Field>
      <datalist id={list}>
        {models.data?.map(model => (
          <option key={model} value={model} />
        ))}
      </datalist>
      <Field label={t('aliases.channels')} error={errorOf('channel_ids')} help={t('aliases.channels_help')}>
        {wiring => (
          <TextInput {...wiring} {...form.register('channel_ids')} placeholder={t('aliases.any_channel')} />
        )}
      </Field>
      <Switch
        label={t('status.enabled')}
        isOn={form.watch('isOn')}
        onChange={isOn => form.setValue('isOn', isOn)}
      />
    </FormDialog>
  )
}
