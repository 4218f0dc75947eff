import { useTranslation } from 'react-i18next'
import { ROLE } from '../api/self.ts'
import { Page, Sheet } from '../look/page.tsx'
import { Empty } from '../look/states.tsx'

/** Shown instead of a page that the user's role may not open. */
export function Forbidden({ neededRole }: { readonly neededRole: number }) {
  const { t } = useTranslation()
  const role = neededRole >= ROLE.root ? t('role.root') : t('role.admin')
  return (
    <Page title={t('forbidden.title')}>
      <Sheet>
        <Empty title={t('forbidden.needs', { role })}>{t('forbidden.help')}</Empty>
      </Sheet>
    </Page>
  )
}
