import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { ApiError } from '../../api/errors.ts'
import { useCall } from '../../api/query.ts'
import { Panel } from '../../look/panel.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { Explanation } from './explanation.tsx'
import { otherOf } from './log-row.ts'

/** Why a request failed, by any of its IDs or by the text of its error. */
export function ExplainPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { error: question = '' } = useSearch({ strict: false })
  const result = useCall('explainRequest', { query: { q: question } }, { enabled: question !== '' })
  const { error, data } = result
  const code = data?.request ? otherOf(data.request).error_code : undefined
  const isUnknown = error instanceof ApiError && error.status === 404
  return (
    <Panel title={t('explain.title')} onClose={() => void navigate({ to: '/usage' })}>
      <blockquote className="mb-4 line-clamp-3 border-l-2 border-line pl-3 font-mono text-code text-ink-3 break-all">
        {question}
      </blockquote>
      {isUnknown ? (
        <Empty title={t('explain.unknown')}>{t('explain.unknown_help')}</Empty>
      ) : (
        <Part result={result}>
          {data ? (
            <div className="flex flex-col gap-4">
              <Explanation explanation={data} />
              {data.request ? (
                <p className="flex flex-wrap gap-4">
                  <Link to="/usage/$requestId" params={{ requestId: data.request.request_id }}>
                    {t('explain.open')}
                  </Link>
                  {code ? (
                    <Link to="/usage" search={{ error_code: code }}>
                      {t('explain.show_all', { code })}
                    </Link>
                  ) : null}
                </p>
              ) : null}
            </div>
          ) : null}
        </Part>
      )}
    </Panel>
  )
}
