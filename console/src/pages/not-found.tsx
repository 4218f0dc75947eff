import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Page, Sheet } from '../look/page.tsx'
import { Empty } from '../look/states.tsx'

export function NotFound() {
  const { t } = useTranslation()
  return (
    <Page title={t('not_found.title')}>
      <Sheet>
        <Empty title={t('not_found.help')}>
          <Link to="/">{t('nav.overview')}</Link>
        </Empty>
      </Sheet>
    </Page>
  )
}
