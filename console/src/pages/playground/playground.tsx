import { Tabs } from 'radix-ui'
import { type ReactNode, useId, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Choice } from '../../look/field.tsx'
import { useFilters } from '../../look/filters.tsx'
import { Page } from '../../look/page.tsx'
import { usePageKeys } from '../../look/page-keys.ts'
import { Tab, TabList } from '../../look/snippets.tsx'
import { BillingToken } from './available-models.ts'
import { Chat } from './chat.tsx'
import { Images } from './images.tsx'
import { Moderation } from './moderation.tsx'
import { Rerank } from './rerank.tsx'
import { Speech } from './speech.tsx'
import { SavedTests } from './tests.tsx'
import { Transcription } from './transcription.tsx'
import { VideoTab } from './video.tsx'

const TABS = {
  chat: <Chat />,
  compare: <Chat isComparing />,
  images: <Images />,
  speech: <Speech />,
  transcription: <Transcription />,
  moderation: <Moderation />,
  rerank: <Rerank />,
  video: <VideoTab />,
  tests: <SavedTests />,
} as const satisfies Record<string, ReactNode>
type TabName = keyof typeof TABS
const NAMES = Object.keys(TABS) as TabName[]

type Filters = { p?: number | undefined; tab?: string | undefined; model?: string | undefined }

const ENABLED = 1
const MAX_TOKENS = 100

/** Tries every endpoint without code, billed to the user's account or to one of the user's tokens. */
export function Playground() {
  const { t } = useTranslation()
  const asId = useId()
  usePageKeys({ 'Ctrl Enter': { words: t('keys.run') }, Esc: { words: t('keys.stop') } })
  const [{ tab }, setFilters] = useFilters<Filters>()
  const tokens = useCall('listTokens', { query: { page_size: MAX_TOKENS } })
  const [tokenId, setTokenId] = useState<number>()
  const working = tokens.data?.items.filter(({ status }) => status === ENABLED) ?? []
  const token = working.find(({ id }) => id === tokenId)
  const activeTab = NAMES.find(name => name === tab) ?? 'chat'
  // Visited tabs stay mounted, so that their input is kept.
  const visited = useRef(new Set<TabName>())
  visited.current.add(activeTab)
  return (
    <Page
      title={t('nav.playground')}
      actions={
        <span className="flex min-w-0 items-center gap-2">
          <label htmlFor={asId} className="text-label whitespace-nowrap text-ink-2">
            {t('playground.bill_to')}
          </label>
          <Choice
            id={asId}
            value={tokenId ?? ''}
            title={t('playground.bill_to_help')}
            className="min-w-0"
            onChange={event => setTokenId(Number(event.target.value) || undefined)}
          >
            <option value="">{t('playground.my_account')}</option>
            {working.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </Choice>
        </span>
      }
    >
      <BillingToken value={token}>
        <Tabs.Root
          value={activeTab}
          onValueChange={value => setFilters({ tab: value, model: undefined })}
          className="flex min-w-0 grow flex-col gap-4"
        >
          <TabList label={t('nav.playground')}>
            {NAMES.map(name => (
              <Tab key={name} value={name}>
                {t(`playground.tab.${name}`)}
              </Tab>
            ))}
          </TabList>
          {NAMES.filter(name => visited.current.has(name)).map(name => (
            <Tabs.Content
              key={name}
              value={name}
              forceMount
              hidden={name !== activeTab}
              tabIndex={-1}
              className="min-w-0"
            >
              {TABS[name]}
            </Tabs.Content>
          ))}
        </Tabs.Root>
      </BillingToken>
    </Page>
  )
}
