import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Checkbox, Choice, TextArea, TextInput } from '../../look/field.tsx'
import { useErrorText } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { type ChannelValues, valuesOf } from './channel-values.ts'

type BulkEditProps = {
  readonly channels: readonly Channel[]
  readonly onSelect: (ids: ReadonlySet<string>) => void
  readonly onClose: () => void
}

const PLAIN = ['priority', 'weight', 'tag', 'auto_ban', 'models'] as const
const OBJECTS = ['model_mapping', 'param_override', 'header_override', 'status_code_mapping'] as const
type FieldName = (typeof PLAIN)[number] | (typeof OBJECTS)[number]
type Values = Readonly<Record<FieldName, string>>
type ModelsMode = 'add' | 'remove' | 'replace'

const NOTHING: Values = {
  priority: '0',
  weight: '1',
  tag: '',
  auto_ban: '1',
  models: '',
  model_mapping: '',
  param_override: '',
  header_override: '',
  status_code_mapping: '',
}

/** The values of one channel, to copy to the others. */
function copied(channel: Channel): Values {
  const values: ChannelValues = valuesOf(channel, undefined)
  return {
    ...values,
    auto_ban: values.auto_ban ? '1' : '0',
    models: values.models.join(', '),
    model_mapping: values.model_mapping.length === 0 ? '' : JSON.stringify(channel.model_mapping, null, 2),
  }
}

/** The checked fields as the API expects them. */
function editOf(values: Values, ticked: ReadonlySet<FieldName>, mode: ModelsMode) {
  const objects = OBJECTS.filter(name => ticked.has(name)).map(name => [name, values[name].trim() || {}])
  return {
    fields: {
      ...(ticked.has('priority') ? { priority: Number(values.priority) } : {}),
      ...(ticked.has('weight') ? { weight: Number(values.weight) } : {}),
      ...(ticked.has('tag') ? { tag: values.tag.trim() } : {}),
      ...(ticked.has('auto_ban') ? { auto_ban: values.auto_ban === '1' } : {}),
      ...(ticked.has('models') && mode === 'replace' ? { models: values.models } : {}),
      ...Object.fromEntries(objects),
    },
    ...(ticked.has('models') && mode === 'add' ? { add_models: values.models } : {}),
    ...(ticked.has('models') && mode === 'remove' ? { remove_models: values.models } : {}),
  }
}

/** Edits the checked fields of several channels. Channels that fail stay selected, with their errors. */
export function BulkEdit({ channels, onSelect, onClose }: BulkEditProps) {
  const { t } = useTranslation()
  const words = useErrorText()
  const edit = useRouteMutation('editChannels')
  const [ticked, setTicked] = useState<ReadonlySet<FieldName>>(new Set())
  const [values, setValues] = useState(NOTHING)
  const [mode, setMode] = useState<ModelsMode>('add')
  const [faults, setFaults] = useState<readonly string[]>([])

  const save = async () => {
    const ids = channels.map(({ id }) => id)
    try {
      const results = await edit.mutateAsync({ body: { ids, ...editOf(values, ticked, mode) } })
      const refused = results.filter(({ is_changed }) => !is_changed)
      const nameOf = (id: number) => channels.find(channel => channel.id === id)?.name ?? `#${id}`
      setFaults(
        refused.map(
          ({ id, code, message }) => `${nameOf(id)}: ${words(new ApiError({ status: 200, code, message }))}`,
        ),
      )
      toast(t('bulk.edited', { done: results.length - refused.length, count: results.length }))
      onSelect(new Set(refused.map(({ id }) => String(id))))
      if (refused.length === 0) onClose()
    } catch (error) {
      const isKeyNeeded = error instanceof ApiError && error.errors[0]?.path === 'key'
      setFaults([isKeyNeeded ? t('bulk.key_needed') : words(error)])
    }
  }
  const set = (name: FieldName, value: string) => {
    setValues(before => ({ ...before, [name]: value }))
    setTicked(before => new Set(before).add(name))
  }
  const tick = (name: FieldName, isTicked: boolean) =>
    setTicked(before => new Set([...before].filter(each => each !== name).concat(isTicked ? name : [])))
  const row = (name: FieldName, control: ReactNode) => (
    <div key={name} className="grid items-center gap-2 sm:grid-cols-[180px_1fr]">
      <Checkbox
        label={t(`editor.${name}`)}
        checked={ticked.has(name)}
        onChange={event => tick(name, event.target.checked)}
      />
      {control}
    </div>
  )

  return (
    <Dialog title={t('bulk.edit_title', { count: channels.length })} isOpen isWide onClose={onClose}>
      <p className="text-ink-2">{t('bulk.edit_help')}</p>
      <div className="grid items-center gap-2 sm:grid-cols-[180px_1fr]">
        <span aria-hidden="true">{t('bulk.copy_from')}</span>
        <Choice
          aria-label={t('bulk.copy_from')}
          defaultValue=""
          onChange={event => {
            const source = channels.find(({ id }) => String(id) === event.target.value)
            setValues(source ? copied(source) : NOTHING)
            setMode(source ? 'replace' : 'add')
          }}
        >
          <option value="">{t('bulk.copy_none')}</option>
          {channels.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </Choice>
      </div>
      <div className="flex flex-col gap-3 border-t border-line pt-3">
        {PLAIN.map(name =>
          row(
            name,
            name === 'auto_ban' ? (
              <Choice
                aria-label={t('editor.auto_ban')}
                value={values.auto_ban}
                onChange={event => set('auto_ban', event.target.value)}
              >
                <option value="1">{t('common.yes')}</option>
                <option value="0">{t('common.no')}</option>
              </Choice>
            ) : (
              <span className="flex gap-2">
                {name === 'models' ? (
                  <Choice
                    aria-label={t('bulk.models_mode')}
                    value={mode}
                    onChange={event => setMode(event.target.value as ModelsMode)}
                  >
                    <option value="add">{t('bulk.add')}</option>
                    <option value="remove">{t('bulk.remove')}</option>
                    <option value="replace">{t('bulk.replace')}</option>
                  </Choice>
                ) : null}
                <TextInput
                  aria-label={t(`editor.${name}`)}
                  type={name === 'priority' || name === 'weight' ? 'number' : 'text'}
                  value={values[name]}
                  onChange={event => set(name, event.target.value)}
                />
              </span>
            ),
          ),
        )}
        <details>
          <summary className="font-medium">{t('editor.advanced')}</summary>
          <div className="flex flex-col gap-3 pt-3">
            {OBJECTS.map(name =>
              row(
                name,
                <TextArea
                  aria-label={t(`editor.${name}`)}
                  rows={2}
                  spellCheck={false}
                  className="font-mono text-code"
                  value={values[name]}
                  onChange={event => set(name, event.target.value)}
                />,
              ),
            )}
          </div>
        </details>
      </div>
      {faults.length > 0 ? (
        <ul role="alert" className="flex max-h-40 flex-col gap-1 overflow-y-auto text-bad">
          {faults.map(fault => (
            <li key={fault}>{fault}</li>
          ))}
        </ul>
      ) : null}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{t('common.cancel')}</Button>
        <Button
          kind="primary"
          isBusy={edit.isPending}
          disabled={ticked.size === 0}
          onClick={() => void save()}
        >
          {faults.length > 0 ? t('bulk.retry') : t('common.save')}
        </Button>
      </div>
    </Dialog>
  )
}
