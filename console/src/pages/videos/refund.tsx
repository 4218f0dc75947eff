import { useTranslation } from 'react-i18next'
import type { Video } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { moneyOfOne } from '../../look/format.ts'
import { ReasonDialog } from '../../look/reason-dialog.tsx'
import { toast } from '../../look/toast.tsx'
import { VideoFault } from './video-state.tsx'

/** Refunds the cost of a failed job, once and with a reason. */
export function Refund({ video, onClose }: { readonly video: Video; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const form = useContractForm<'refundVideo', { reason: string }>({
    route: 'refundVideo',
    defaults: { reason: '' },
    toInput: ({ reason }) => ({ params: { id: video.id }, body: { reason } }),
    onDone: () => {
      toast(t('videos.refund.done', { amount: moneyOfOne(video.cost), name: video.username }))
      onClose()
    },
  })
  return (
    <ReasonDialog
      title={t('videos.refund.title')}
      verb={t('videos.refund.verb')}
      help={t('videos.refund.reason_help')}
      form={form}
      onClose={onClose}
    >
      <p>
        {t('videos.refund.effect', {
          amount: moneyOfOne(video.cost),
          name: video.username,
          token: video.token_name || '–',
        })}
      </p>
      <VideoFault video={video} />
    </ReasonDialog>
  )
}
