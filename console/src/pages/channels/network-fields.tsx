import type { Path, UseFormReturn } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { IP_FAMILIES } from '../../../../src/domain/channel-network.ts'
import { Choice, Field, TextArea, TextInput } from '../../look/field.tsx'
import { useGatewayText } from '../../texts/gateway-text.tsx'
import { type ChannelValues, NETWORK_FIELDS } from './channel-values.ts'

/** The fields of errors, by the paths that the API names. */
export const NETWORK_ERRORS: Readonly<Record<string, Path<ChannelValues>>> = Object.fromEntries(
  NETWORK_FIELDS.flatMap(name => [
    [`setting.${name}`, name],
    [`channel.setting.${name}`, name],
  ]),
)

type NetworkProps = {
  readonly form: UseFormReturn<ChannelValues>
  readonly errorOf: (name: Path<ChannelValues>) => string | undefined
}

const PEM_FIELDS = ['ca', 'client_cert', 'client_key'] as const

/** How the gateway connects to the provider of this channel. */
export function NetworkFields({ form, errorOf }: NetworkProps) {
  const { t } = useTranslation()
  const gatewayText = useGatewayText()
  const faultOf = (name: Path<ChannelValues>) => {
    const error = errorOf(name)
    return error === undefined ? undefined : gatewayText(error)
  }
  const hasFault = NETWORK_FIELDS.some(name => errorOf(name) !== undefined)
  return (
    <details className="border-t border-line py-4" open={hasFault || undefined}>
      <summary className="text-section font-semibold">{t('network.title')}</summary>
      <div className="flex flex-col gap-4 pt-3">
        <p className="text-ink-3">{t('network.help')}</p>
        <Field
          name="proxy"
          label={t('network.proxy')}
          error={faultOf('proxy')}
          help={t('network.proxy_help')}
        >
          {wiring => (
            <TextInput
              {...wiring}
              {...form.register('proxy')}
              placeholder="socks5h://user:password@proxy.example:1080"
              autoComplete="off"
              spellCheck={false}
              className="font-mono"
            />
          )}
        </Field>
        <Field label={t('network.ip_family')} error={faultOf('ip_family')}>
          {wiring => (
            <Choice {...wiring} {...form.register('ip_family')}>
              <option value="">{t('network.as_gateway')}</option>
              {IP_FAMILIES.map(family => (
                <option key={family} value={family}>
                  {t(`network.${family}`)}
                </option>
              ))}
            </Choice>
          )}
        </Field>
        {PEM_FIELDS.map(name => (
          <Field
            key={name}
            name={name}
            label={t(`network.${name}`)}
            error={faultOf(name)}
            help={t(`network.${name}_help`)}
          >
            {wiring => (
              <TextArea
                {...wiring}
                {...form.register(name)}
                rows={3}
                autoComplete="off"
                spellCheck={false}
                placeholder={
                  name === 'client_key' ? '-----BEGIN PRIVATE KEY-----' : '-----BEGIN CERTIFICATE-----'
                }
                className={
                  name === 'client_key'
                    ? 'font-mono text-code [-webkit-text-security:disc] focus:[-webkit-text-security:none]'
                    : 'font-mono text-code'
                }
              />
            )}
          </Field>
        ))}
      </div>
    </details>
  )
}
