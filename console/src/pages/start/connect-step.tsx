import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Channel, ChannelType } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Field, TextArea, TextInput } from '../../look/field.tsx'
import { ErrorCard, useErrorText } from '../../look/states.tsx'
import { GatewayText, useGatewayText } from '../../texts/gateway-text.tsx'
import { type TestOutcome, TestResultText, useTest } from '../channels/channel-test.tsx'
import { ModelPicker } from '../channels/model-picker.tsx'
import { TypePicker } from '../channels/type-picker.tsx'
import { useIsPriced } from '../channels/use-priced.ts'

const INITIALLY_CHECKED = 40

/** Provider-specific fields, except the one that the API has at the top level. */
const settingOf = (own: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(own).filter(([name, value]) => name !== 'openai_organization' && value !== ''),
  )

type BaseUrlFieldProps = {
  readonly type: ChannelType
  readonly value: string
  readonly onChange: (value: string) => void
  readonly error: string | undefined
}

function BaseUrlField({ type, value, onChange, error }: BaseUrlFieldProps) {
  const { t } = useTranslation()
  const help = type.fields.find(({ name }) => name === 'base_url')?.help
  return (
    <Field
      label={t('editor.base_url')}
      error={error}
      help={help ? <GatewayText text={help} /> : t('editor.base_url_help')}
    >
      {wiring => (
        <TextInput
          {...wiring}
          value={value}
          placeholder={type.base_url}
          onChange={event => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}

type ConnectedProps = { readonly name: string; readonly tested: TestOutcome; readonly onEdit: () => void }

/** The finished step in one line. */
function Connected({ name, tested, onEdit }: ConnectedProps) {
  const { t } = useTranslation()
  return (
    <p className="flex flex-wrap items-center justify-between gap-2">
      <span role="status">
        {name} · <TestResultText tested={tested} /> {t('start.enabled')}
      </span>
      <Button isSmall onClick={onEdit}>
        {t('common.edit')}
      </Button>
    </p>
  )
}

/**
 * Saves the channel as disabled, tests it, and enables it only if the test passes, so that a broken channel
 * never serves requests.
 */
export function ConnectStep({ onTested }: { readonly onTested: (model: string) => void }) {
  const { t } = useTranslation()
  const gatewayText = useGatewayText()
  const words = useErrorText()
  const isPriced = useIsPriced()
  const program = useCall('status', {}).data?.reset_command.split(' ')[0] ?? 'sluice'
  const create = useRouteMutation('createChannel')
  const update = useRouteMutation('updateChannel')
  const setStatus = useRouteMutation('setChannelStatus')
  const { test } = useTest()
  const [type, setType] = useState<ChannelType>()
  const [key, setKey] = useState('')
  const [baseUrl, setBaseUrl] = useState('')
  const [own, setOwn] = useState<Readonly<Record<string, string>>>({})
  const [offered, setOffered] = useState<readonly string[]>()
  const [models, setModels] = useState<readonly string[]>([])
  const [saved, setSaved] = useState<Channel>()
  const [tested, setTested] = useState<TestOutcome>()
  const [fault, setFault] = useState<unknown>()
  const [busy, setBusy] = useState<'fetch' | 'test'>()
  const [isEnabled, setEnabled] = useState(false)
  const [isEditing, setEditing] = useState(false)

  if (!type)
    return (
      <>
        <TypePicker isShort onPick={setType} />
        <p className="text-label text-ink-3">
          {t('start.no_key')} <code className="font-mono text-code text-ink-2">{program} start --demo</code>
        </p>
      </>
    )

  const faultAt = (path: string) => {
    const errors = fault instanceof ApiError ? fault.errors : []
    const error = errors.find(each => each.path.replace(/^channel\./, '').startsWith(path))
    return error && gatewayText(error.message)
  }
  const connection = { key: key.trim(), base_url: baseUrl.trim(), setting: settingOf(own) }

  const fetchModels = async () => {
    setBusy('fetch')
    setFault(undefined)
    try {
      const listedModels = await call('fetchModels', { body: { type: type.type, ...connection } })
      setOffered(listedModels)
      if (models.length === 0)
        setModels(listedModels.filter(model => isPriced?.(model)).slice(0, INITIALLY_CHECKED))
    } catch (error) {
      setFault(error)
      setOffered(undefined)
    } finally {
      setBusy(undefined)
    }
  }
  const save = () => {
    const fields = { ...connection, models: [...models] }
    return saved
      ? update.mutateAsync({ body: { id: saved.id, ...fields } })
      : create.mutateAsync({
          body: { mode: 'single', channel: { type: type.type, name: type.name, status: 2, ...fields } },
        })
  }
  const testAndEnable = async () => {
    setBusy('test')
    setFault(undefined)
    setTested(undefined)
    try {
      const channel = [await save()].flat()[0] as Channel
      setSaved(channel)
      const model = models.find(each => isPriced?.(each)) ?? models[0]
      const result = await test(channel.id, { model })
      setTested(result)
      if (result.success) {
        await setStatus.mutateAsync({ params: { id: channel.id }, body: { status: 1 } })
        setEnabled(true)
        setEditing(false)
        onTested(model ?? '')
      }
    } catch (error) {
      setFault(error)
    } finally {
      setBusy(undefined)
    }
  }
  const needsUrl =
    type.base_url === '' || type.fields.some(({ name, required }) => name === 'base_url' && required)
  const extra = type.fields.filter(({ name, required }) => required && name !== 'base_url')
  const urlField = (
    <BaseUrlField type={type} value={baseUrl} onChange={setBaseUrl} error={faultAt('base_url')} />
  )

  if (isEnabled && !isEditing && tested)
    return <Connected name={type.name} tested={tested} onEdit={() => setEditing(true)} />

  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={event => {
        event.preventDefault()
        void (models.length > 0 ? testAndEnable() : fetchModels())
      }}
    >
      <p className="flex items-center justify-between gap-2">
        <strong className="font-medium">{type.name}</strong>
        <Button
          isSmall
          kind="quiet"
          onClick={() => {
            setType(undefined)
            setOffered(undefined)
          }}
        >
          {t('start.other_provider')}
        </Button>
      </p>
      {extra.map(({ name, label, help, secret }) => (
        <Field key={name} label={label} help={help} error={faultAt('setting')}>
          {wiring => (
            <TextInput
              {...wiring}
              type={secret ? 'password' : 'text'}
              value={own[name] ?? ''}
              onChange={event => setOwn({ ...own, [name]: event.target.value })}
            />
          )}
        </Field>
      ))}
      {needsUrl ? (
        urlField
      ) : (
        <details>
          <summary className="min-h-6 text-label text-ink-2">{t('start.base_url')}</summary>
          {urlField}
        </details>
      )}
      <Field
        label={t('editor.key')}
        error={faultAt('key')}
        help={type.key_hint ? t('editor.key_hint', { hint: gatewayText(type.key_hint) }) : undefined}
      >
        {wiring => (
          <TextInput
            {...wiring}
            type="password"
            autoComplete="off"
            value={key}
            onChange={event => setKey(event.target.value)}
            onBlur={() => key && type.lists_models && offered === undefined && void fetchModels()}
          />
        )}
      </Field>
      {type.lists_models ? (
        <Button className="self-start" isBusy={busy === 'fetch'} onClick={() => void fetchModels()}>
          {t('editor.fetch')}
        </Button>
      ) : null}
      {offered ? (
        <ModelPicker offered={offered} listed={models} isPriced={isPriced} onChange={setModels} />
      ) : null}
      {offered ? null : (
        <Field label={t('editor.models')} help={t('editor.models_help')} error={faultAt('models')}>
          {wiring => (
            <TextArea
              {...wiring}
              rows={2}
              className="font-mono text-code"
              defaultValue={models.join('\n')}
              onChange={event =>
                setModels(
                  event.target.value
                    .split(/[,\n]+/)
                    .map(name => name.trim())
                    .filter(name => name !== ''),
                )
              }
            />
          )}
        </Field>
      )}
      {fault && !(fault instanceof ApiError && fault.errors.length > 0) ? <ErrorCard error={fault} /> : null}
      {fault instanceof ApiError && fault.errors.length > 0 ? (
        <p role="alert" className="text-bad">
          {words(fault)}
        </p>
      ) : null}
      {tested ? (
        <p role="status">
          <TestResultText tested={tested} /> {isEnabled ? null : t('start.stays_disabled')}
        </p>
      ) : null}
      <Button
        type="submit"
        kind="primary"
        className="self-start"
        isBusy={busy === 'test'}
        disabled={models.length === 0}
      >
        {t('start.test')}
      </Button>
    </form>
  )
}
