import { useTranslation } from 'react-i18next'
import type { Video } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { FormFault } from '../../look/fault.tsx'
import { Field, TextInput } from '../../look/field.tsx'
import { moneyOfOne } from '../../look/format.ts'
import { toast } from '../../look/toast.tsx'

/** Gives back what a failed job cost: the amount is fixed, the reason is not, and it happens once. */
export function Refund({ video, onClose }: { readonly video: Video; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'refundVideo', { reason: string }>({
    route: 'refundVideo',
    defaults: { reason: '' },
    toInput: ({ reason }) => ({ params: { id: video.id }, body: { reason } }),
    onDone: () => {
      toast(t('videos.refund.done', { amount: moneyOfOne(video.cost), name: video.username }))
      onClose()
    },
  })
  return (
    <Dialog title={t('videos.refund.title')} isOpen onClose={onClose}>
      <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
        <p>
          {t('videos.refund.effect', {
            amount: moneyOfOne(video.cost),
            name: video.username,
            token: video.token_name || '–',
          })}
        </p>
        {video.error ? (
          <p className="rounded-control bg-bad-soft px-3 py-2 break-words">
            <span className="font-mono text-code">{video.error.code}</span> {video.error.message}
          </p>
        ) : null}
        <Field label={t('users.reason')} error={errorOf('reason')} help={t('videos.refund.reason_help')}>
          {wiring => <TextInput {...wiring} {...form.register('reason')} />}
        </Field>
        <FormFault words={fault} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={form.watch('reason').trim() === ''}>
            {t('videos.refund.verb')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
