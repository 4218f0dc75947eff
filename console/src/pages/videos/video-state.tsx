import { useTranslation } from 'react-i18next'
import type { Video } from '../../api/contract.ts'
import { classes } from '../../look/classes.ts'
import { share } from '../../look/format.ts'
import { CircleCheck, CircleX, Clapperboard, Clock, HelpCircle } from '../../look/icons.ts'

const GLYPHS = {
  queued: { icon: Clock, tone: 'text-ink-3' },
  processing: { icon: Clapperboard, tone: 'text-accent' },
  completed: { icon: CircleCheck, tone: 'text-ok' },
  failed: { icon: CircleX, tone: 'text-bad' },
  doubt: { icon: HelpCircle, tone: 'text-warn' },
} as const

export const hasEnded = ({ status }: Pick<Video, 'status'>) => status === 'completed' || status === 'failed'

/** The status of a job, as icon and text. */
export function VideoState({ video }: { readonly video: Video }) {
  const { t } = useTranslation()
  const state = video.is_in_doubt ? 'doubt' : video.status
  const { icon: Icon, tone } = GLYPHS[state]
  return (
    <span className="inline-flex items-center gap-1.5 align-middle whitespace-nowrap">
      <Icon size={16} aria-hidden className={tone} />
      {t(`videos.state.${state}`)}
    </span>
  )
}

/** The progress that the provider reports. */
export function Progress({ video }: { readonly video: Video }) {
  const { t } = useTranslation()
  if (video.status === 'failed') return <span className="text-ink-3">–</span>
  const part = video.status === 'completed' ? 1 : video.progress
  return (
    <span className="inline-flex items-center gap-2">
      <svg
        viewBox="0 0 100 5"
        preserveAspectRatio="none"
        className="h-1.5 w-20"
        role="img"
        aria-label={t('videos.progress')}
      >
        <title>{t('videos.progress')}</title>
        <rect width="100" height="5" className="fill-sunken" />
        <rect width={part * 100} height="5" className={part === 1 ? 'fill-ok' : 'fill-accent'} />
      </svg>
      <span className="w-12 text-right">{share(part, 1)}</span>
    </span>
  )
}

/** The provider's error message. */
export const VideoFault = ({ video, className }: { readonly video: Video; readonly className?: string }) =>
  video.error ? (
    <p className={classes('rounded-control bg-bad-soft px-3 py-2 break-words', className)}>
      <span className="font-mono text-code">{video.error.code}</span> {video.error.message}
    </p>
  ) : null
