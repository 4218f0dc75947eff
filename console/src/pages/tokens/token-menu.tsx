import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Confirm } from '../../look/confirm.tsx'
import { fromNow } from '../../look/format.ts'
import { Power, PowerOff, Trash2 } from '../../look/icons.ts'
import { Menu } from '../../look/menu.tsx'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'
import { lastUse } from './token-state.ts'

const DAY_S = 86_400

export function TokenMenu({ token }: { readonly token: Token }) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const update = useAction('updateToken')
  const remove = useRouteMutation('deleteToken')
  const [isDeleting, setDeleting] = useState(false)
  const { id, name } = token
  const isOff = token.status === 2
  const turn = (isOn: boolean, canUndo = true): Promise<void> =>
    update.run({ body: { id, status: isOn ? 1 : 2 } }, () =>
      toast(
        isOn ? t('channels.enabled', { name }) : t('channels.disabled', { name }),
        canUndo ? () => void turn(!isOn, false) : undefined,
      ),
    )
  const isInUse = lastUse(token) > Date.now() / 1000 - DAY_S
  return (
    <>
      <Menu
        label={t('tokens.menu', { name })}
        items={[
          {
            label: isOff ? t('channels.enable') : t('channels.disable'),
            icon: isOff ? Power : PowerOff,
            onSelect: () => void turn(isOff),
          },
          { label: t('common.delete'), icon: Trash2, isDangerous: true, onSelect: () => setDeleting(true) },
        ]}
      />
      {isDeleting ? (
        <Confirm
          title={t('tokens.delete_title', { name })}
          effect={
            <>
              <p>{t('tokens.delete_effect')}</p>
              <p>
                {lastUse(token) > 0
                  ? t('tokens.delete_used', { when: fromNow(lastUse(token)) })
                  : t('tokens.delete_unused')}
              </p>
            </>
          }
          verb={t('common.delete')}
          {...(isInUse ? { typed: name } : {})}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            await remove.mutateAsync({ params: { id } })
            toast(t('tokens.deleted', { name }))
            await navigate({ to: '/tokens', search: true })
          }}
        />
      ) : null}
    </>
  )
}
