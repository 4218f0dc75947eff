import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Moment } from '../../look/moment.tsx'
import { Part } from '../../look/states.tsx'
import { useAction } from '../../look/use-action.ts'

/** The browser's name and version from its user agent. */
const browserOf = (agent: string) =>
  /(Firefox|Edg|OPR|Chrome|Safari)\/[\d.]+/.exec(agent)?.[0] ?? agent.slice(0, 40)

export function Sessions() {
  const { t } = useTranslation()
  const list = useCall('listSessions', {})
  const end = useAction('endSession')
  const endOthers = useAction('endOtherSessions')
  const sessions = list.data ?? []
  return (
    <section className="px-4 py-3" aria-labelledby="sessions">
      <header className="flex flex-wrap items-center justify-between gap-2 pb-2">
        <h3 id="sessions" className="font-semibold">
          {t('me.sessions')}
        </h3>
        {sessions.length > 1 ? (
          <Button isBusy={endOthers.isBusy} onClick={() => void endOthers.run({})}>
            {t('me.end_others')}
          </Button>
        ) : null}
      </header>
      <Part result={list}>
        <ul className="divide-y divide-line text-table">
          {sessions.map(({ id, current, address, user_agent, last_seen_time }) => (
            <li key={id} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
              <span title={user_agent}>{browserOf(user_agent)}</span>
              <span className="text-ink-2">{address}</span>
              <Moment at={last_seen_time} />
              {current ? (
                <span className="text-ok">{t('me.this_session')}</span>
              ) : (
                <Button isSmall className="ml-auto" onClick={() => void end.run({ params: { id } })}>
                  {t('me.end')}
                </Button>
              )}
            </li>
          ))}
        </ul>
      </Part>
    </section>
  )
}
