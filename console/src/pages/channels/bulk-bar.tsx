import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { mapConcurrently } from '../../api/map-concurrently.ts'
import { Button } from '../../look/button.tsx'
import { Activity, Pencil, Power, PowerOff, Trash2 } from '../../look/icons.ts'
import type { RowSelection } from '../../look/selection.ts'
import { SelectionBar } from '../../look/selection-bar.tsx'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'
import { BulkEdit } from './bulk-edit.tsx'
import { useTest } from './channel-test.tsx'
import { DeleteChannels } from './delete-channels.tsx'

/** Bulk actions on the selected channels. */
export function BulkBar({ selection }: { readonly selection: RowSelection<Channel> }) {
  const { rows: channels, onChange: onSelect, put } = selection
  const { t } = useTranslation()
  const { test } = useTest()
  const setStatuses = useAction('setChannelStatuses')
  const [layer, setLayer] = useState<'edit' | 'delete'>()
  const [isTesting, setTesting] = useState(false)
  const clear = () => onSelect(new Set())

  const turn = (isOn: boolean) => {
    const changed = channels.filter(({ status }) => (status === 1) !== isOn)
    if (changed.length === 0) return
    const set = (status: 1 | 2, onDone?: () => void) =>
      setStatuses.run({ body: { ids: changed.map(({ id }) => id), status } }, () => {
        put(changed.map(channel => ({ ...channel, status })))
        onDone?.()
      })
    void set(isOn ? 1 : 2, () =>
      toast(
        isOn ? t('bulk.enabled', { count: changed.length }) : t('bulk.disabled', { count: changed.length }),
        () => void set(isOn ? 2 : 1),
      ),
    )
  }
  const testAll = async () => {
    setTesting(true)
    const results = await mapConcurrently(channels, ({ id }) => test(id))
    setTesting(false)
    const successes = results.filter(({ success }) => success).length
    toast(t('bulk.tested', { passed: successes, count: results.length }))
  }

  return (
    <SelectionBar label={t('bulk.label')} selection={selection}>
      <Button icon={Power} onClick={() => void turn(true)}>
        {t('channels.enable')}
      </Button>
      <Button icon={PowerOff} onClick={() => void turn(false)}>
        {t('channels.disable')}
      </Button>
      <Button icon={Activity} hint="T" data-test-selection isBusy={isTesting} onClick={() => void testAll()}>
        {t('test.verb')}
      </Button>
      <Button icon={Pencil} onClick={() => setLayer('edit')}>
        {t('bulk.edit')}
      </Button>
      <Button icon={Trash2} onClick={() => setLayer('delete')}>
        {t('common.delete')}
      </Button>
      {layer === 'edit' ? (
        <BulkEdit channels={channels} onSelect={onSelect} onClose={() => setLayer(undefined)} />
      ) : null}
      {layer === 'delete' ? (
        <DeleteChannels channels={channels} onClose={() => setLayer(undefined)} onDone={clear} />
      ) : null}
    </SelectionBar>
  )
}
