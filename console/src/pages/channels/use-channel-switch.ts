import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'

/** Enables or disables a channel, with undo. */
export function useChannelSwitch() {
  const { t } = useTranslation()
  const set = useAction('setChannelStatus')
  const turn = ({ id, name }: Pick<Channel, 'id' | 'name'>, isOn: boolean, canUndo = true): Promise<void> =>
    set.run({ params: { id }, body: { status: isOn ? 1 : 2 } }, () =>
      toast(
        isOn ? t('channels.enabled', { name }) : t('channels.disabled', { name }),
        canUndo ? () => void turn({ id, name }, !isOn, false) : undefined,
      ),
    )
  return turn
}
