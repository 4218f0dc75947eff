import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { addressOf } from '../../api/client.ts'
import type { Video } from '../../api/contract.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { fromNow } from '../../look/format.ts'
import { Download, Play } from '../../look/icons.ts'

const fileOf = (id: string, index: number) =>
  addressOf('videoContent', { params: { id }, query: index === 0 ? {} : { index } })

/** One video of a job. It is loaded from the provider only on request. */
function VideoPlayer({ video, index }: { readonly video: Video; readonly index: number }) {
  const { t } = useTranslation()
  const [isWanted, want] = useState(false)
  const [isBroken, setBroken] = useState(false)
  const address = fileOf(video.id, index)
  return (
    <div className="flex flex-col gap-2">
      {isWanted ? (
        // biome-ignore lint/a11y/useMediaCaption: a generated film comes without one
        <video
          controls
          autoPlay
          src={address}
          aria-label={t('videos.video', { number: index + 1 })}
          onError={() => setBroken(true)}
          className="aspect-video w-full rounded-control bg-sunken"
        />
      ) : (
        <div className="flex aspect-video w-full items-center justify-center rounded-control bg-sunken">
          <Button icon={Play} onClick={() => want(true)}>
            {t('videos.play')}
          </Button>
        </div>
      )}
      {isBroken ? (
        <p role="alert" className="text-bad">
          {t('videos.broken')}
        </p>
      ) : null}
      <a className={buttonClasses('plain')} href={address} download={`${video.id}-${index + 1}.mp4`}>
        <Download size={16} aria-hidden />
        {t('videos.download')}
      </a>
    </div>
  )
}

/** The videos of a completed job, until they expire at the provider. */
export function VideoResults({ video }: { readonly video: Video }) {
  const { t } = useTranslation()
  if (video.expires_at <= Date.now() / 1000) return <p className="text-ink-2">{t('videos.expired')}</p>
  return (
    <>
      <p className="text-label text-ink-3">{t('videos.expires_help', { when: fromNow(video.expires_at) })}</p>
      {Array.from({ length: video.results }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: films are known by their number
        <VideoPlayer key={index} video={video} index={index} />
      ))}
    </>
  )
}
