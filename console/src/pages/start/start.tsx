import { useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Page } from '../../look/page.tsx'
import { ROW } from '../usage/log-row.ts'
import { ConnectStep } from './connect-step.tsx'
import { RequestStep } from './request-step.tsx'
import { Step } from './step.tsx'
import { TokenStep } from './token-step.tsx'

/**
 * Guides the user to the first response on one page. A step is done when the gateway reports it, not when a button was
 * clicked.
 */
export function Start() {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const models = useCall('listUsableModels', {})
  const tokens = useCall('listTokens', { query: { page_size: 1 } })
  const requests = useCall(
    'listOwnLogs',
    { query: { page_size: 1, type: ROW.request } },
    { refetchMs: 2_000 },
  )
  const [token, setToken] = useState<Token>()
  const [tested, setTested] = useState<string>()
  const [isAdding, setAdding] = useState(false)
  const hasModels = (models.data?.length ?? 0) > 0
  const hasToken = (tokens.data?.total ?? 0) > 0
  const hasRequest = (requests.data?.total ?? 0) > 0
  // A step stays open after it is done, so that its result can be read.
  const wasEmpty = useRef(false)
  if (models.data?.length === 0) wasEmpty.current = true
  const model = tested ?? models.data?.[0]
  return (
    <Page title={t('start.title')}>
      <p className="max-w-[640px] text-ink-2">{t('start.intro')}</p>
      <ol className="flex max-w-[720px] flex-col gap-3">
        <Step
          number={1}
          title={t('start.connect')}
          isDone={hasModels}
          isOpen={!hasModels || wasEmpty.current}
        >
          {isAdmin ? <ConnectStep onTested={setTested} /> : <p>{t('start.ask_admin')}</p>}
        </Step>
        <Step
          number={2}
          title={t('start.token')}
          isDone={hasToken}
          isOpen={hasModels && (!hasToken || isAdding || token !== undefined)}
          action={
            hasToken ? (
              <Button isSmall onClick={() => setAdding(true)}>
                {t('start.create_another')}
              </Button>
            ) : null
          }
        >
          <TokenStep token={token} model={model} onCreated={setToken} />
        </Step>
        <Step number={3} title={t('start.request')} isDone={hasRequest} isOpen={hasToken}>
          <RequestStep token={token} model={model} />
        </Step>
      </ol>
    </Page>
  )
}
