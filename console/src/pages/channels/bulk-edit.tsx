import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { useAct } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Checkbox, Choice, TextInput } from '../../look/field.tsx'
import { useFaultWords } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { inTurns } from './in-turns.ts'

type BulkEditProps = {
  readonly channels: readonly Channel[]
  readonly onSelect: (ids: ReadonlySet<string>) => void
  readonly onClose: () => void
}

const FIELDS = ['priority', 'weight', 'tag', 'auto_ban', 'models'] as const
type FieldName = (typeof FIELDS)[number]
type ModelsMode = 'add' | 'remove' | 'replace'

const namesIn = (text: string) =>
  text
    .split(/[,\n]+/)
    .map(name => name.trim())
    .filter(name => name !== '')

function modelsAfter(before: readonly string[], given: readonly string[], mode: ModelsMode): string[] {
  if (mode === 'replace') return [...given]
  if (mode === 'remove') return before.filter(model => !given.includes(model))
  return [...new Set([...before, ...given])]
}

/** Only what is ticked is written. What the gateway refuses stays selected, with its reason. */
export function BulkEdit({ channels, onSelect, onClose }: BulkEditProps) {
  const { t } = useTranslation()
  const words = useFaultWords()
  const update = useAct('updateChannel')
  const [ticked, setTicked] = useState<ReadonlySet<FieldName>>(new Set())
  const [values, setValues] = useState({ priority: '0', weight: '1', tag: '', auto_ban: '1', models: '' })
  const [mode, setMode] = useState<ModelsMode>('add')
  const [isBusy, setBusy] = useState(false)
  const [faults, setFaults] = useState<readonly (readonly [Channel, string])[]>([])

  const bodyFor = (channel: Channel) => ({
    id: channel.id,
    ...(ticked.has('priority') ? { priority: Number(values.priority) } : {}),
    ...(ticked.has('weight') ? { weight: Number(values.weight) } : {}),
    ...(ticked.has('tag') ? { tag: values.tag.trim() } : {}),
    ...(ticked.has('auto_ban') ? { auto_ban: values.auto_ban === '1' ? (1 as const) : (0 as const) } : {}),
    ...(ticked.has('models') ? { models: modelsAfter(channel.models, namesIn(values.models), mode) } : {}),
  })
  const save = async () => {
    setBusy(true)
    const results = await inTurns(channels, channel =>
      update.mutateAsync({ body: bodyFor(channel) }).then(
        () => undefined,
        error => [channel, words(error)] as const,
      ),
    )
    const refused = results.filter(result => result !== undefined)
    setBusy(false)
    setFaults(refused)
    toast(t('bulk.edited', { done: channels.length - refused.length, count: channels.length }))
    onSelect(new Set(refused.map(([{ id }]) => String(id))))
    if (refused.length === 0) onClose()
  }
  const set = (name: FieldName, value: string) => {
    setValues(before => ({ ...before, [name]: value }))
    setTicked(before => new Set(before).add(name))
  }

  return (
    <Dialog title={t('bulk.edit_title', { count: channels.length })} isOpen isWide onClose={onClose}>
      <p className="text-ink-2">{t('bulk.edit_help')}</p>
      <div className="flex flex-col gap-3">
        {FIELDS.map(name => (
          <div key={name} className="grid items-center gap-2 sm:grid-cols-[160px_1fr]">
            <Checkbox
              label={t(`editor.${name}`)}
              checked={ticked.has(name)}
              onChange={event =>
                setTicked(before => {
                  const after = new Set(before)
                  if (event.target.checked) after.add(name)
                  else after.delete(name)
                  return after
                })
              }
            />
            {name === 'auto_ban' ? (
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
            )}
          </div>
        ))}
      </div>
      {faults.length > 0 ? (
        <ul role="alert" className="flex max-h-40 flex-col gap-1 overflow-y-auto text-bad">
          {faults.map(([channel, fault]) => (
            <li key={channel.id}>
              {channel.name}: {fault}
            </li>
          ))}
        </ul>
      ) : null}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{t('common.cancel')}</Button>
        <Button kind="primary" isBusy={isBusy} disabled={ticked.size === 0} onClick={() => void save()}>
          {faults.length > 0 ? t('bulk.retry') : t('common.save')}
        </Button>
      </div>
    </Dialog>
  )
}
