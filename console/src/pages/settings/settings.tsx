import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { isSettingKey, type Language, SETTINGS, settingTexts } from '../../../../src/domain/setting.ts'
import type { SettingItem } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Field, Switch, TextInput } from '../../look/field.tsx'
import { Moment } from '../../look/moment.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Facts } from '../../look/panel.tsx'
import { Part, useErrorText } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { useGatewayText } from '../../texts/gateway-text.tsx'

type Value = SettingItem['value']

/** A setting that this page does not know, because the gateway is newer, is shown with the gateway's description. */
function useSettingTexts({ key, help }: SettingItem): { readonly label: string; readonly help: string } {
  const { i18n } = useTranslation()
  return isSettingKey(key) ? settingTexts(SETTINGS[key], i18n.language as Language) : { label: key, help }
}

type RowProps = {
  readonly setting: SettingItem
  readonly value: Value
  readonly onChange: (value: Value) => void
  readonly onReset: () => void
  readonly error: string | undefined
}

function Row({ setting, value, onChange, onReset, error }: RowProps) {
  const { t } = useTranslation()
  const texts = useSettingTexts(setting)
  const defaultText =
    typeof setting.default === 'boolean'
      ? setting.default
        ? t('common.yes')
        : t('common.no')
      : String(setting.default)
  const help = (
    <>
      {texts.help}{' '}
      <span className="whitespace-nowrap">
        {t('settings.default', { value: defaultText || t('settings.nothing') })}
      </span>
    </>
  )
  return (
    <div className="flex flex-wrap items-start justify-between gap-3 px-4 py-3">
      {typeof value === 'boolean' ? (
        <div className="max-w-[640px] grow">
          <Switch label={texts.label} isOn={value} onChange={onChange} />
          <p className="pt-1 text-label text-ink-3">{help}</p>
          {error ? <p className="text-label text-bad">{error}</p> : null}
        </div>
      ) : (
        <Field label={texts.label} help={help} error={error} className="max-w-[640px] grow">
          {wiring => (
            <TextInput
              {...wiring}
              type={typeof setting.default === 'number' ? 'number' : 'text'}
              className="max-w-80"
              value={String(value)}
              onChange={event =>
                onChange(
                  typeof setting.default === 'number' && event.target.value !== ''
                    ? Number(event.target.value)
                    : event.target.value,
                )
              }
            />
          )}
        </Field>
      )}
      {setting.source === 'set' ? (
        <Button isSmall kind="quiet" onClick={onReset}>
          {t('settings.reset')}
        </Button>
      ) : null}
    </div>
  )
}

function About() {
  const { t } = useTranslation()
  const status = useCall('status', {})
  const setup = useCall('setup', {})
  return (
    <Sheet title={t('settings.about')}>
      <div className="p-4">
        <Part result={status}>
          <Facts
            facts={[
              [t('settings.version'), status.data?.version ?? '–'],
              [t('settings.since'), <Moment key="since" at={status.data?.start_time ?? 0} />],
              [t('settings.database'), setup.data?.database_type ?? '–'],
              [
                t('settings.reference'),
                <a key="docs" href={status.data?.docs_link}>
                  {status.data?.docs_link}
                </a>,
              ],
            ]}
          />
        </Part>
      </div>
    </Sheet>
  )
}

export function Settings() {
  const { t } = useTranslation()
  const words = useErrorText()
  const gatewayText = useGatewayText()
  const list = useCall('listSettings', {})
  const update = useRouteMutation('updateSettings')
  const [changes, setChanges] = useState<Readonly<Record<string, Value>>>({})
  const settings = list.data ?? []
  const changed = settings.filter(({ key, value }) => key in changes && changes[key] !== value)
  const faults =
    update.error && 'errors' in update.error
      ? (update.error.errors as { path: string; message: string }[])
      : []
  const faultOf = (key: string) => {
    const fault = faults.find(({ path }) => path === key)
    return fault && gatewayText(fault.message)
  }
  const save = (body: Record<string, unknown>) =>
    update.mutate(
      { body },
      {
        onSuccess: () => {
          setChanges(before => Object.fromEntries(Object.entries(before).filter(([key]) => !(key in body))))
          toast(t('settings.saved'))
        },
      },
    )
  return (
    <Page title={t('nav.settings')}>
      <Sheet title={t('settings.general')}>
        <Part result={list}>
          <form
            onSubmit={event => {
              event.preventDefault()
              save(Object.fromEntries(changed.map(({ key }) => [key, changes[key]])))
            }}
          >
            <div className="divide-y divide-line">
              {settings.map(setting => (
                <Row
                  key={setting.key}
                  setting={setting}
                  value={changes[setting.key] ?? setting.value}
                  onChange={value => setChanges({ ...changes, [setting.key]: value })}
                  onReset={() => save({ [setting.key]: null })}
                  error={faultOf(setting.key)}
                />
              ))}
            </div>
            {update.error && faults.length === 0 ? (
              <p role="alert" className="px-4 py-2 text-bad">
                {words(update.error)}
              </p>
            ) : null}
            <footer className="flex flex-wrap items-center justify-end gap-3 border-t border-line p-3">
              <span role="status" className="text-ink-2">
                {changed.length > 0 ? t('settings.changed', { count: changed.length }) : ''}
              </span>
              <Button disabled={changed.length === 0} onClick={() => setChanges({})}>
                {t('common.cancel')}
              </Button>
              <Button type="submit" kind="primary" isBusy={update.isPending} disabled={changed.length === 0}>
                {t('common.save')}
              </Button>
            </footer>
          </form>
        </Part>
      </Sheet>
      <About />
    </Page>
  )
}
