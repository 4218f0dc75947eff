import type { Path, UseFormReturn } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { REFUSALS_TO_DISABLE } from '../../../../src/domain/channel-condition.ts'
import type { Channel, ChannelType } from '../../api/contract.ts'
import { useIsRoot } from '../../api/self.ts'
import { Field, Radios, Switch, TextArea, TextInput } from '../../look/field.tsx'
import { LimitFields } from '../../look/limit-fields.tsx'
import { GatewayText, useGatewayText } from '../../texts/gateway-text.tsx'
import { splitKeys } from './channel-types.ts'
import type { ChannelValues } from './channel-values.ts'

type FieldsProps = {
  readonly form: UseFormReturn<ChannelValues>
  readonly errorOf: (name: Path<ChannelValues>) => string | undefined
}

type ConnectionProps = FieldsProps & { readonly type: ChannelType; readonly channel?: Channel | undefined }

export function ConnectionFields({ type, channel, form, errorOf }: ConnectionProps) {
  const { t, i18n } = useTranslation()
  const gatewayText = useGatewayText()
  const isRoot = useIsRoot()
  /** The console's label, or the gateway's where there is none. */
  const nameOf = (name: string, label: string) => {
    const key = `types.field.${name}`
    return i18n.exists(key) ? t(key as 'types.field.region') : label
  }
  const keys = splitKeys(form.watch('key'))
  const keyError = errorOf('key')
  const baseUrl = type.fields.find(({ name }) => name === 'base_url')
  const own = type.fields.filter(({ name }) => name !== 'base_url')
  return (
    <>
      <Field label={t('channels.name')} error={errorOf('name')}>
        {wiring => <TextInput {...wiring} {...form.register('name')} autoComplete="off" />}
      </Field>
      <Field
        name="key"
        label={t('editor.key')}
        error={keyError === undefined ? undefined : gatewayText(keyError)}
        help={
          <>
            {type.key_hint ? <p>{t('editor.key_hint', { hint: gatewayText(type.key_hint) })}</p> : null}
            <p>
              {channel
                ? t('editor.key_unchanged', { key: channel.key.split('\n')[0] })
                : t('editor.key_several')}{' '}
              {channel && !isRoot ? t('editor.key_needed_again') : null}
            </p>
          </>
        }
      >
        {wiring => (
          <TextArea
            {...wiring}
            {...form.register('key')}
            rows={keys.length > 1 ? 4 : 1}
            autoComplete="off"
            spellCheck={false}
            className="font-mono text-code [-webkit-text-security:disc] focus:[-webkit-text-security:none]"
          />
        )}
      </Field>
      {keys.length > 1 && !channel ? (
        <Radios
          legend={t('editor.mode')}
          value={form.watch('keyMode')}
          onChange={value => form.setValue('keyMode', value)}
          options={[
            { value: 'multi_to_single', label: t('editor.mode_one', { count: keys.length }) },
            { value: 'batch', label: t('editor.mode_batch', { count: keys.length }) },
          ]}
        />
      ) : null}
      <Field
        name="base_url"
        label={t('editor.base_url')}
        error={errorOf('base_url')}
        help={baseUrl?.help ? <GatewayText text={baseUrl.help} /> : t('editor.base_url_help')}
      >
        {wiring => (
          <TextInput
            {...wiring}
            {...form.register('base_url')}
            placeholder={type.base_url}
            autoComplete="off"
            spellCheck={false}
          />
        )}
      </Field>
      {own.map(({ name, label, help, secret, required }) => (
        <Field
          key={name}
          label={`${nameOf(name, label)}${required ? ' *' : ''}`}
          help={<GatewayText text={help} />}
          error={errorOf(`own.${name}`) ?? (name === own[0]?.name ? errorOf('own') : undefined)}
        >
          {wiring => (
            <TextInput
              {...wiring}
              {...form.register(`own.${name}`)}
              type={secret ? 'password' : 'text'}
              autoComplete="off"
            />
          )}
        </Field>
      ))}
    </>
  )
}

export function RoutingFields({ form, errorOf }: FieldsProps) {
  const { t } = useTranslation()
  return (
    <>
      <div className="grid grid-cols-2 gap-3">
        <Field label={t('editor.priority')} error={errorOf('priority')} help={t('editor.priority_help')}>
          {wiring => <TextInput {...wiring} {...form.register('priority')} type="number" step={1} />}
        </Field>
        <Field label={t('editor.weight')} error={errorOf('weight')} help={t('editor.weight_help')}>
          {wiring => <TextInput {...wiring} {...form.register('weight')} type="number" step={1} min={0} />}
        </Field>
      </div>
      <Field label={t('editor.tag')} error={errorOf('tag')} help={t('editor.tag_help')}>
        {wiring => <TextInput {...wiring} {...form.register('tag')} />}
      </Field>
      <Switch
        label={t('editor.auto_ban')}
        isOn={form.watch('auto_ban')}
        onChange={isOn => form.setValue('auto_ban', isOn, { shouldDirty: true })}
      />
      <p className="text-label text-ink-3">{t('editor.auto_ban_help', { count: REFUSALS_TO_DISABLE })}</p>
    </>
  )
}

const JSON_FIELDS = ['param_override', 'header_override', 'status_code_mapping'] as const
const EXAMPLES = {
  param_override: '{ "temperature": 0.2 }',
  header_override: '{ "x-team": "search" }',
  status_code_mapping: '{ "529": "503" }',
} as const
export function AdvancedFields({ form, errorOf }: FieldsProps) {
  const { t } = useTranslation()
  return (
    <details className="border-t border-line py-4">
      <summary className="text-section font-semibold">{t('editor.advanced')}</summary>
      <div className="flex flex-col gap-4 pt-3">
        <Field
          label={t('editor.test_model')}
          error={errorOf('test_model')}
          help={t('editor.test_model_help')}
        >
          {wiring => <TextInput {...wiring} {...form.register('test_model')} className="font-mono" />}
        </Field>
        {JSON_FIELDS.map(name => (
          <Field key={name} label={t(`editor.${name}`)} error={errorOf(name)} help={t(`editor.${name}_help`)}>
            {wiring => (
              <TextArea
                {...wiring}
                {...form.register(name)}
                rows={3}
                spellCheck={false}
                placeholder={EXAMPLES[name]}
                className="font-mono text-code"
              />
            )}
          </Field>
        ))}
        <Switch
          label={t('editor.allow_routing_fields')}
          isOn={form.watch('allow_routing_fields')}
          onChange={isOn => form.setValue('allow_routing_fields', isOn, { shouldDirty: true })}
        />
        <p className="text-ink-3">{t('editor.allow_routing_fields_help')}</p>
        <LimitFields register={form.register} errorOf={errorOf} />
        <Field label={t('editor.remark')} error={errorOf('remark')}>
          {wiring => <TextArea {...wiring} {...form.register('remark')} rows={2} />}
        </Field>
      </div>
    </details>
  )
}
