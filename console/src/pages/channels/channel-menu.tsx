import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { CopyPlus, Pencil, Power, PowerOff, Trash2 } from '../../look/icons.ts'
import { Menu } from '../../look/menu.tsx'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'
import { DeleteChannels } from './delete-channels.tsx'
import { useChannelSwitch } from './use-channel-switch.ts'

export function ChannelMenu({ channel }: { readonly channel: Channel }) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const turn = useChannelSwitch()
  const copy = useAction('copyChannel')
  const [isDeleting, setDeleting] = useState(false)
  const isOn = channel.status === 1
  return (
    <>
      <Menu
        label={t('channels.menu', { name: channel.name })}
        items={[
          {
            label: isOn ? t('channels.disable') : t('channels.enable'),
            icon: isOn ? PowerOff : Power,
            onSelect: () => void turn(channel, !isOn),
            hint: 'o',
          },
          {
            label: t('common.edit'),
            icon: Pencil,
            hint: 'e',
            onSelect: () =>
              void navigate({ to: '/channels/$id/edit', params: { id: String(channel.id) }, search: true }),
          },
          {
            label: t('channels.copy'),
            icon: CopyPlus,
            onSelect: () =>
              void copy.run({ params: { id: channel.id } }, copied =>
                toast(t('channels.copied', { name: copied.name })),
              ),
          },
          { label: t('common.delete'), icon: Trash2, isDangerous: true, onSelect: () => setDeleting(true) },
        ]}
      />
      {isDeleting ? <DeleteChannels channels={[channel]} onClose={() => setDeleting(false)} /> : null}
    </>
  )
}
