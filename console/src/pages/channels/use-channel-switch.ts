import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { useRouteMutation } from '../../api/query.ts'
import { toast } from '../../look/toast.tsx'

/** Enables or disables a channel, with undo. */
export function useChannelSwitch() {
  const { t } = useTranslation()
  const set = useRouteMutation('setChannelStatus')
  const turn = async ({ id, name }: Pick<Channel, 'id' | 'name'>, isOn: boolean, canUndo = true) => {
    await set.mutateAsync({ params: { id }, body: { status: isOn ? 1 : 2 } })
    toast(
      isOn ? t('channels.enabled', { name }) : t('channels.disabled', { name }),
      canUndo ? () => void turn({ id, name }, !isOn, false) : undefined,
    )
  }
  return turn
}
