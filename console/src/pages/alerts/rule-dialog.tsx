import { useTranslation } from 'react-i18next'
import { ALERT_KIND_NAMES, type AlertKind, alertKind } from '../../../../src/domain/alert.ts'
import type { AlertRuleItem, AlertTargetItem } from '../../api/contract.ts'
import { useSavingForm, validateBody } from '../../api/form.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Checkbox, Choice, Field, Radios, Switch, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { toast } from '../../look/toast.tsx'
import { useAlertTexts } from './alert-texts.ts'

type Values = {
  name: string
  kind: AlertKind
  threshold: string
  window_seconds: string
  min_requests: string
  for_seconds: string
  repeat_seconds: string
  targets: 'all' | 'some'
  target_ids: number[]
  subject_ids: string
  quiet_from: string
  quiet_to: string
  time_zone: string
  isOn: boolean
}

type RuleNumbers = Pick<Values, 'threshold' | 'window_seconds' | 'min_requests' | 'for_seconds'>

const textOf = (value: number | null | undefined) =>
  value === null || value === undefined ? '' : String(value)

const defaultNumbers = (kind: AlertKind): RuleNumbers => {
  const { threshold, window, minRequests, forSeconds } = alertKind(kind)
  return {
    threshold: textOf(threshold?.default),
    window_seconds: textOf(window?.default),
    min_requests: textOf(minRequests?.default),
    for_seconds: String(forSeconds),
  }
}

const DAY_S = 86_400

const valuesOf = (rule: AlertRuleItem | undefined): Values => ({
  name: rule?.name ?? '',
  kind: rule?.kind ?? 'channel_disabled',
  ...(rule
    ? {
        threshold: textOf(rule.threshold),
        window_seconds: textOf(rule.window_seconds),
        min_requests: textOf(rule.min_requests),
        for_seconds: String(rule.for_seconds),
      }
    : defaultNumbers('channel_disabled')),
  repeat_seconds: String(rule?.repeat_seconds ?? DAY_S),
  targets: (rule?.target_ids ?? null) === null ? 'all' : 'some',
  target_ids: [...(rule?.target_ids ?? [])],
  subject_ids: rule?.subject_ids.join(', ') ?? '',
  quiet_from: rule?.quiet_from ?? '',
  quiet_to: rule?.quiet_to ?? '',
  time_zone: rule?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  isOn: rule?.enabled ?? true,
})

const numberOf = (text: string) => (text.trim() === '' ? null : Number(text))

function bodyOf(values: Values) {
  const { threshold, window, minRequests, subjects } = alertKind(values.kind)
  return {
    name: values.name,
    enabled: values.isOn,
    threshold: threshold ? numberOf(values.threshold) : null,
    window_seconds: window ? numberOf(values.window_seconds) : null,
    min_requests: minRequests ? numberOf(values.min_requests) : null,
    for_seconds: Number(values.for_seconds),
    repeat_seconds: Number(values.repeat_seconds),
    target_ids: values.targets === 'all' ? null : values.target_ids,
    subject_ids: subjects
      ? values.subject_ids
          .split(/[\s,#]+/)
          .filter(part => part !== '')
          .map(Number)
      : [],
    quiet_from: values.quiet_from || null,
    quiet_to: values.quiet_to || null,
    time_zone: values.time_zone,
  }
}

type RuleDialogProps = {
  readonly rule: AlertRuleItem | undefined
  readonly targets: readonly AlertTargetItem[]
  readonly onClose: () => void
}

export function RuleDialog({ rule, targets, onClose }: RuleDialogProps) {
  const { t } = useTranslation()
  const { language, kindLabel, kindHelp, ruleName } = useAlertTexts()
  const create = useRouteMutation('createAlertRule')
  const update = useRouteMutation('updateAlertRule')
  const { form, submit, errorOf, isBusy, fault } = useSavingForm<Values>({
    defaults: valuesOf(rule),
    save: async values => {
      const body = bodyOf(values)
      const { kind } = values
      if (rule) {
        await validateBody('updateAlertRule', { id: rule.id, ...body })
        await update.mutateAsync({ body: { id: rule.id, ...body } })
      } else {
        await validateBody('createAlertRule', { kind, ...body })
        await create.mutateAsync({ body: { kind, ...body } })
      }
      toast(t('editor.saved', { name: values.name }))
      onClose()
    },
  })
  const kind = form.watch('kind')
  const chosen = form.watch('target_ids')
  const { threshold, window, minRequests, subjects } = alertKind(kind)
  const number = (name: keyof RuleNumbers | 'repeat_seconds', label: string, help?: string) => (
    <Field label={label} error={errorOf(name)} help={help} className="min-w-40 flex-1">
      {wiring => <TextInput {...wiring} {...form.register(name)} type="number" min={0} step="any" />}
    </Field>
  )
  return (
    <FormDialog
      title={rule ? t('editor.edit', { name: ruleName(rule) }) : t('alerts.add_rule')}
      verb={t('common.save')}
      isWide
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field label={t('alerts.kind')} error={errorOf('kind')} help={kindHelp(kind)}>
        {wiring => (
          <Choice
            {...wiring}
            value={kind}
            disabled={rule !== undefined}
            onChange={event => {
              const next = event.target.value as AlertKind
              form.setValue('kind', next)
              for (const [name, value] of Object.entries(defaultNumbers(next)))
                form.setValue(name as keyof RuleNumbers, value)
            }}
          >
            {ALERT_KIND_NAMES.map(name => (
              <option key={name} value={name}>
                {kindLabel(name)}
              </option>
            ))}
          </Choice>
        )}
      </Field>
      <Field label={t('alerts.name')} error={errorOf('name')}>
        {wiring => <TextInput {...wiring} {...form.register('name')} autoComplete="off" />}
      </Field>
      <div className="flex flex-wrap gap-4">
        {threshold ? number('threshold', `${t('alerts.threshold')} (${threshold.unit[language]})`) : null}
        {window ? number('window_seconds', t('alerts.window')) : null}
        {minRequests ? number('min_requests', t('alerts.min_requests')) : null}
      </div>
      <div className="flex flex-wrap gap-4">
        {number('for_seconds', t('alerts.for'), t('alerts.for_help'))}
        {number('repeat_seconds', t('alerts.repeat'), t('alerts.repeat_help'))}
      </div>
      {subjects ? (
        <Field
          label={t(`alerts.only_${subjects}`)}
          error={errorOf('subject_ids')}
          help={t('alerts.subjects_help')}
        >
          {wiring => <TextInput {...wiring} {...form.register('subject_ids')} autoComplete="off" />}
        </Field>
      ) : null}
      <Radios
        legend={t('alerts.targets')}
        value={form.watch('targets')}
        onChange={value => form.setValue('targets', value)}
        options={[
          { value: 'all', label: t('alerts.all_targets') },
          { value: 'some', label: t('alerts.some_targets') },
        ]}
      />
      {form.watch('targets') === 'some' ? (
        <div className="flex flex-wrap gap-x-4 gap-y-1">
          {targets.map(target => (
            <Checkbox
              key={target.id}
              label={target.name}
              checked={chosen.includes(target.id)}
              onChange={event =>
                form.setValue(
                  'target_ids',
                  event.target.checked ? [...chosen, target.id] : chosen.filter(id => id !== target.id),
                )
              }
            />
          ))}
        </div>
      ) : null}
      <div className="flex flex-wrap gap-4">
        <Field label={t('alerts.quiet_from')} error={errorOf('quiet_from')} className="min-w-32 flex-1">
          {wiring => <TextInput {...wiring} {...form.register('quiet_from')} type="time" />}
        </Field>
        <Field label={t('alerts.quiet_to')} error={errorOf('quiet_to')} className="min-w-32 flex-1">
          {wiring => <TextInput {...wiring} {...form.register('quiet_to')} type="time" />}
        </Field>
        <Field label={t('alerts.time_zone')} error={errorOf('time_zone')} className="min-w-40 flex-1">
          {wiring => <TextInput {...wiring} {...form.register('time_zone')} autoComplete="off" />}
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
