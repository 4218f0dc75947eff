import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'

export function DeleteAccount() {
  const { t } = useTranslation()
  const { username } = useSelf()
  const client = useQueryClient()
  const navigate = useNavigate()
  const [isConfirming, setConfirming] = useState(false)
  return (
    <section
      className="flex flex-wrap items-center justify-between gap-3 px-4 py-3"
      aria-labelledby="delete-account"
    >
      <div>
        <h3 id="delete-account" className="font-semibold">
          {t('me.delete')}
        </h3>
        <p className="text-label text-ink-3">{t('me.delete_help')}</p>
      </div>
      <Button onClick={() => setConfirming(true)}>{t('me.delete')}</Button>
      {isConfirming ? (
        <Confirm
          title={t('me.delete')}
          effect={t('me.delete_effect')}
          passwordOf={username}
          verb={t('me.delete')}
          onClose={() => setConfirming(false)}
          onConfirm={async password => {
            // The gateway deletes an account only within minutes of a sign-in.
            await call('login', { body: { username, password } }, { askSignIn: false })
            await call('deleteSelf', {})
            await navigate({ to: '/sign-in' })
            client.clear()
          }}
        />
      ) : null}
    </section>
  )
}
