import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import type { Channel, ChannelType } from '../../api/contract.ts'
import { useSavingForm, validateBody } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { useDraft } from '../../look/draft.ts'
import { FormError } from '../../look/form-error.tsx'
import { Panel, Section } from '../../look/panel.tsx'
import { Part } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { UnsavedGuard } from '../../look/unsaved-guard.tsx'
import { useLinkedField } from '../../look/use-linked-field.ts'
import { AdvancedFields, ConnectionFields, RoutingFields } from './channel-fields.tsx'
import { useTest } from './channel-test.tsx'
import { useTypes } from './channel-types.ts'
import { bodyOf, type ChannelValues, changesOf, modeOf, valuesOf } from './channel-values.ts'
import { ConcurrentChange, changedFields } from './concurrent-change.tsx'
import { ModelList } from './model-list.tsx'
import { ModelMapping } from './model-mapping.tsx'
import { NETWORK_ERRORS, NetworkFields } from './network-fields.tsx'
import { TypePicker } from './type-picker.tsx'

type FormProps = { readonly type: ChannelType; readonly channel?: Channel; readonly onClose: () => void }

/** Not kept in a draft: keys, headers, which often contain one, and the password of a proxy. */
const SECRETS: ReadonlySet<string> = new Set(['key', 'header_override', 'proxy', 'client_key'])

/** The changed values, without secrets. */
function draftOf(values: ChannelValues, before: ChannelValues, type: ChannelType): Partial<ChannelValues> {
  const hidden = new Set(type.fields.filter(({ secret }) => secret).map(({ name }) => name))
  const own = Object.fromEntries(
    Object.entries(values.own).map(([name, text]) => [
      name,
      hidden.has(name) ? (before.own[name] ?? '') : text,
    ]),
  )
  const open = { ...values, own }
  const changed = changedFields(before, open).filter(name => !SECRETS.has(name))
  return Object.fromEntries(changed.map(name => [name, open[name]]))
}

function ChannelForm({ type, channel, onClose }: FormProps) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const create = useRouteMutation('createChannel')
  const update = useRouteMutation('updateChannel')
  const { test } = useTest()
  useLinkedField()
  const [before, setBefore] = useState(() => valuesOf(channel, type))
  const [isTested, setTested] = useState(false)
  const isSaved = useRef(false)

  const save = async (values: ChannelValues) => {
    const saved = channel ? await saveChanges(values, channel) : await saveNew(values)
    isSaved.current = true
    if (isTested) await test(saved.id)
    toast(t('editor.saved', { name: saved.name }))
    await navigate({ to: '/channels/$id', params: { id: String(saved.id) }, search: true })
  }
  async function saveNew(values: ChannelValues): Promise<Channel> {
    const body = { mode: modeOf(values), channel: { type: type.type, ...bodyOf(values) } }
    await validateBody('createChannel', body)
    const created = await create.mutateAsync({ body })
    return [created].flat()[0] as Channel
  }
  async function saveChanges(values: ChannelValues, old: Channel): Promise<Channel> {
    const body = { id: old.id, ...changesOf(values, before, old) }
    await validateBody('updateChannel', body)
    return update.mutateAsync({ body })
  }

  const { form, submit, errorOf, isBusy, fault } = useSavingForm<ChannelValues>({
    defaults: before,
    save,
    names: NETWORK_ERRORS,
  })
  const values = form.watch()
  const { isDirty, dirtyFields } = form.formState
  const now = valuesOf(channel, type)
  const elsewhere = isSaved.current ? [] : changedFields(before, now)
  /** Loads the saved values into the fields that were not edited here. */
  const take = () => {
    for (const name of elsewhere)
      form.resetField(name, { defaultValue: now[name], keepDirty: name in dirtyFields })
    for (const name of elsewhere) if (!(name in dirtyFields)) form.setValue(name, now[name])
    setBefore(now)
  }
  useDraft({
    name: channel ? `channel.${channel.id}` : `new-channel.${type.type}`,
    typed: draftOf(values, before, type),
    restore: typed => {
      for (const [name, value] of Object.entries(typed))
        if (name in before) form.setValue(name as keyof ChannelValues, value as never, { shouldDirty: true })
    },
  })
  const ask = () => {
    const { key, base_url, setting, ...rest } = bodyOf(values, channel)
    const { openai_organization } = rest as { openai_organization?: string }
    if (channel && key === undefined) return call('fetchModelsOf', { params: { id: channel.id } })
    return call('fetchModels', { body: { type: type.type, key, base_url, setting, openai_organization } })
  }

  return (
    <form
      onSubmit={event => void submit(event)}
      onKeyDown={event => {
        if (event.key !== 's' || !(event.metaKey || event.ctrlKey)) return
        event.preventDefault()
        void submit()
      }}
    >
      {channel && elsewhere.length > 0 ? (
        <ConcurrentChange id={channel.id} fields={elsewhere} onTake={take} />
      ) : null}
      <Section title={t('editor.connection')}>
        <ConnectionFields type={type} channel={channel} form={form} errorOf={errorOf} />
      </Section>
      <Section title={t('channels.models')}>
        <ModelList
          models={values.models}
          onChange={models => form.setValue('models', [...models], { shouldDirty: true })}
          error={errorOf('models')}
          fetchModels={type.lists_models ? ask : undefined}
        />
      </Section>
      <Section title={t('mapping.title')}>
        <p className="text-label text-ink-3">{t('mapping.help')}</p>
        <ModelMapping
          rows={values.model_mapping}
          onChange={rows => form.setValue('model_mapping', [...rows], { shouldDirty: true })}
          error={errorOf('model_mapping')}
        />
      </Section>
      <Section title={t('editor.routing')}>
        <RoutingFields form={form} errorOf={errorOf} />
      </Section>
      <NetworkFields form={form} errorOf={errorOf} />
      <AdvancedFields form={form} errorOf={errorOf} />
      <UnsavedGuard isDirty={() => isDirty && !isSaved.current} />
      <FormError words={fault} />
      <footer className="sticky -bottom-4 -mx-4 mt-4 -mb-4 flex flex-wrap justify-end gap-2 border-t border-line bg-sheet p-3">
        <Button onClick={onClose}>{t('common.cancel')}</Button>
        <Button type="submit" isBusy={isBusy && isTested} onClick={() => setTested(true)}>
          {t('editor.save_and_test')}
        </Button>
        <Button type="submit" kind="primary" isBusy={isBusy && !isTested} onClick={() => setTested(false)}>
          {t('common.save')}
        </Button>
      </footer>
    </form>
  )
}

export function NewChannel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { type: typeParam } = useSearch({ strict: false }) as { type?: number }
  const { result, byNumber } = useTypes()
  const [picked, pick] = useState<ChannelType>()
  const type = picked ?? (typeParam === undefined ? undefined : byNumber.get(typeParam))
  const close = () => void navigate({ to: '/channels', search: {} })
  return (
    <Panel title={type ? t('editor.new', { provider: type.name }) : t('channels.add')} onClose={close} isWide>
      <Part result={result}>
        {type ? <ChannelForm key={type.type} type={type} onClose={close} /> : <TypePicker onPick={pick} />}
      </Part>
    </Panel>
  )
}

export function EditChannel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id = '0' } = useParams({ strict: false })
  // Polls, because another user may save the channel while this form is open.
  const result = useCall('getChannel', { params: { id } }, { refetchMs: 5_000 })
  const { byNumber } = useTypes()
  const channel = result.data
  const type = channel && byNumber.get(channel.type)
  const close = () => void navigate({ to: '/channels/$id', params: { id }, search: true })
  return (
    <Panel
      title={channel ? t('editor.edit', { name: channel.name }) : t('common.edit')}
      onClose={close}
      isWide
    >
      <Part result={result}>
        {channel && type ? (
          <ChannelForm key={channel.id} channel={channel} type={type} onClose={close} />
        ) : null}
      </Part>
    </Panel>
  )
}
