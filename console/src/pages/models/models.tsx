import { Tabs } from 'radix-ui'
import { useTranslation } from 'react-i18next'
import { useIsAdmin } from '../../api/self.ts'
import { useFilters } from '../../look/filters.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Tab, TabList } from '../../look/snippets.tsx'
import { Aliases } from './aliases.tsx'
import type { ModelFilters } from './model-filters.ts'
import { ModelTable } from './model-table.tsx'
import { RouteView } from './route-view.tsx'

export function Models() {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const [{ tab }, setFilters] = useFilters<ModelFilters>()
  if (!isAdmin)
    return (
      <Page title={t('nav.models')}>
        <Sheet>
          <ModelTable />
        </Sheet>
      </Page>
    )
  return (
    <Page title={t('nav.models')}>
      <Tabs.Root
        value={tab ?? 'models'}
        onValueChange={value => setFilters({ tab: value, q: undefined })}
        className="flex flex-col gap-4"
      >
        <TabList label={t('nav.models')}>
          <Tab value="models">{t('models.tab')}</Tab>
          <Tab value="aliases">{t('aliases.title')}</Tab>
          <Tab value="route">{t('route.title')}</Tab>
        </TabList>
        <Tabs.Content value="models" tabIndex={-1}>
          <Sheet>
            <ModelTable />
          </Sheet>
        </Tabs.Content>
        <Tabs.Content value="aliases" tabIndex={-1}>
          <Aliases />
        </Tabs.Content>
        <Tabs.Content value="route" tabIndex={-1}>
          <RouteView />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  )
}
