import { Tabs } from 'radix-ui'
import { useTranslation } from 'react-i18next'
import { useFilters } from '../../look/filters.tsx'
import { Page } from '../../look/page.tsx'
import { Tab, TabList } from '../../look/snippets.tsx'
import type { AlertFilters } from './alert-filters.ts'
import { Deliveries } from './deliveries.tsx'
import { FiringAlerts } from './firing-alerts.tsx'
import { Rules } from './rules.tsx'
import { Targets } from './targets.tsx'

export function Alerts() {
  const { t } = useTranslation()
  const [{ tab }, setFilters] = useFilters<AlertFilters>()
  return (
    <Page title={t('nav.alerts')}>
      <FiringAlerts />
      <Tabs.Root
        value={tab ?? 'rules'}
        onValueChange={value => setFilters({ tab: value, status: undefined })}
        className="flex flex-col gap-4"
      >
        <TabList label={t('nav.alerts')}>
          <Tab value="rules">{t('alerts.rules')}</Tab>
          <Tab value="targets">{t('alerts.targets')}</Tab>
          <Tab value="deliveries">{t('alerts.deliveries')}</Tab>
        </TabList>
        <Tabs.Content value="rules" tabIndex={-1}>
          <Rules />
        </Tabs.Content>
        <Tabs.Content value="targets" tabIndex={-1}>
          <Targets />
        </Tabs.Content>
        <Tabs.Content value="deliveries" tabIndex={-1}>
          <Deliveries />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  )
}
