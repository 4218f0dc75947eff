import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { VideoDetail } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { useIsAdmin, useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { CopyableId } from '../../look/copy.tsx'
import { Entries } from '../../look/entries.tsx'
import { moneyOfOne } from '../../look/format.ts'
import { Trash2, Undo2 } from '../../look/icons.ts'
import { Moment } from '../../look/moment.tsx'
import { Money } from '../../look/money.tsx'
import { Facts, Panel, Section } from '../../look/panel.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { Refund } from './refund.tsx'
import { shapeOf } from './video-columns.tsx'
import { VideoResults } from './video-player.tsx'
import { hasEnded, Progress, VideoFault, VideoState } from './video-state.tsx'

const LOOK_MS = 2_000
const STATES = ['queued', 'processing', 'completed', 'failed'] as const

function Timeline({ states }: { readonly states: VideoDetail['states'] }) {
  const { t } = useTranslation()
  const reached = STATES.flatMap(name => {
    const at = states[name]
    return at === undefined ? [] : [{ name, at }]
  })
  return (
    <ol className="flex flex-col gap-1 border-l-2 border-line pl-3 text-table">
      {reached.map(({ name, at }) => (
        <li key={name} className="flex flex-wrap justify-between gap-x-4">
          <span>{t(`videos.state.${name}`)}</span>
          <Moment at={at} />
        </li>
      ))}
    </ol>
  )
}

/** The parameters of the job, the prompt first. */
function RequestSection({ parameters }: { readonly parameters: VideoDetail['parameters'] }) {
  const { t } = useTranslation()
  const { prompt, model: _model, ...rest } = parameters
  const fields = Object.entries(rest).filter(([, value]) => Boolean(value))
  return (
    <Section title={t('videos.request')}>
      <p className="break-words whitespace-pre-wrap">{prompt ? String(prompt) : '–'}</p>
      {fields.length > 0 ? (
        <Facts
          facts={fields.map(([name, value]) => [
            name,
            <span key={name} className="font-mono text-code">
              {typeof value === 'object' ? JSON.stringify(value) : String(value)}
            </span>,
          ])}
        />
      ) : null}
    </Section>
  )
}

function CostSection({ video }: { readonly video: VideoDetail }) {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const [isRefunding, setRefunding] = useState(false)
  const { refund } = video
  return (
    <Section title={t('videos.cost')}>
      <Facts
        facts={[
          [t('usage.charged'), <Money key="cost" usd={video.cost} />],
          ...(video.price
            ? ([[t('usage.price'), video.price.replace(/ shipped$/, ` · ${t('prices.built_in')}`)]] as const)
            : []),
        ]}
      />
      {refund ? (
        <p className="rounded-control bg-ok-soft px-3 py-2">
          {t('videos.refund.line', { amount: moneyOfOne(refund.cost), by: refund.by, reason: refund.reason })}{' '}
          <Moment at={refund.time} />
        </p>
      ) : null}
      {video.is_refundable && isAdmin ? (
        <Button icon={Undo2} className="self-start" onClick={() => setRefunding(true)}>
          {t('videos.refund.verb')}
        </Button>
      ) : null}
      {video.is_refundable && !isAdmin ? <p className="text-ink-2">{t('videos.refund.ask')}</p> : null}
      {isRefunding ? <Refund video={video} onClose={() => setRefunding(false)} /> : null}
      {video.entries.length > 0 ? <Entries entries={video.entries} isShort /> : null}
    </Section>
  )
}

function Delete({ video }: { readonly video: VideoDetail }) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const remove = useRouteMutation('deleteVideo')
  const [isConfirming, ask] = useState(false)
  return (
    <>
      <Button icon={Trash2} className="self-start" onClick={() => ask(true)}>
        {t('common.delete')}
      </Button>
      {isConfirming ? (
        <Confirm
          title={t('videos.delete_title')}
          effect={t('videos.delete_effect')}
          verb={t('common.delete')}
          onClose={() => ask(false)}
          onConfirm={async () => {
            // Close the panel before the lists are read again, because the job no longer exists.
            await remove.mutateAsync({ params: { id: video.id } })
            toast(t('videos.deleted'))
            await navigate({ to: '/videos', search: true })
          }}
        />
      ) : null}
    </>
  )
}

function Detail({ video }: { readonly video: VideoDetail }) {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const { id: selfId } = useSelf()
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 pb-4">
        <VideoState video={video} />
        {hasEnded(video) ? null : <Progress video={video} />}
      </div>
      {video.is_in_doubt ? <p className="pb-4 text-warn">{t('videos.unconfirmed_help')}</p> : null}
      <VideoFault video={video} className="mb-4" />
      {video.status === 'completed' ? (
        <Section title={t('videos.preview')}>
          <VideoResults video={video} />
        </Section>
      ) : null}
      <RequestSection parameters={video.parameters} />
      <CostSection video={video} />
      <Section title={t('videos.timeline')}>
        <Timeline states={video.states} />
        {video.poll_error ? (
          <p className="text-warn">{t('videos.poll_error', { reason: video.poll_error })}</p>
        ) : null}
      </Section>
      <Section title={t('videos.job')}>
        <Facts
          facts={[
            [t('videos.id'), <CopyableId key="id" id={video.id} />],
            [
              t('videos.model'),
              video.upstream_model && video.upstream_model !== video.model
                ? `${video.model} → ${video.upstream_model}`
                : video.model,
            ],
            [t('videos.duration_size'), shapeOf(video)],
            [t('usage.token'), video.token_name || '–'],
            ...(isAdmin
              ? ([
                  [t('usage.user'), video.username],
                  [
                    t('videos.channel'),
                    video.channel ? (
                      <Link key="channel" to="/channels/$id" params={{ id: String(video.channel) }}>
                        {video.channel_name || `#${video.channel}`}
                      </Link>
                    ) : (
                      '–'
                    ),
                  ],
                  [t('usage.upstream_id'), video.upstream_id || '–'],
                ] as const)
              : []),
            [
              t('usage.request'),
              <Link key="request" to="/usage/$requestId" params={{ requestId: video.request_id }}>
                {t('start.open')}
              </Link>,
            ],
            ...(video.remixed_from
              ? ([
                  [
                    t('videos.remixed_from'),
                    <Link key="of" to="/videos/$id" params={{ id: video.remixed_from }} search>
                      {video.remixed_from}
                    </Link>,
                  ],
                ] as const)
              : []),
          ]}
        />
        {hasEnded(video) && video.user_id === selfId ? <Delete video={video} /> : null}
      </Section>
    </>
  )
}

export function VideoPanel() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id = '' } = useParams({ strict: false })
  const result = useCall(
    'getVideo',
    { params: { id } },
    { refetchMs: video => (hasEnded(video) ? false : LOOK_MS) },
  )
  const { error } = result
  const isUnknown = error instanceof ApiError && (error.status === 404 || error.status === 400)
  return (
    <Panel title={t('videos.job')} onClose={() => void navigate({ to: '/videos', search: true })}>
      {isUnknown ? (
        <Empty title={t('videos.unknown')} />
      ) : (
        <Part result={result}>{result.data ? <Detail video={result.data} /> : null}</Part>
      )}
    </Panel>
  )
}
