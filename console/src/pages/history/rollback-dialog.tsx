import { useTranslation } from 'react-i18next'
import { useSavingForm } from '../../api/form.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Field, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { Part } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'
import { GatewayText } from '../../texts/gateway-text.tsx'
import { ChangeList } from './change-list.tsx'

type RollbackDialogProps = { readonly revision: number; readonly onClose: () => void }

/** Shows what a rollback changes before it is made. */
export function RollbackDialog({ revision, onClose }: RollbackDialogProps) {
  const { t } = useTranslation()
  const preview = useCall('rollbackConfig', { params: { revision }, body: { dry_run: true } }, { staleMs: 0 })
  const rollback = useRouteMutation('rollbackConfig')
  const { form, submit, errorOf, isBusy, fault } = useSavingForm<{ reason: string }>({
    defaults: { reason: '' },
    save: async ({ reason }) => {
      await rollback.mutateAsync({ params: { revision }, body: { reason } })
      toast(t('history.restored', { revision }))
      onClose()
    },
  })
  const { changes = [], warnings = [] } = preview.data ?? {}
  return (
    <FormDialog
      title={t('history.rollback_title', { revision })}
      verb={t('history.rollback_verb')}
      isWide
      isReady={changes.length > 0}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="text-ink-2">{t('history.rollback_help', { revision })}</p>
      <section className="flex flex-col gap-2">
        <h3 className="font-semibold">{t('history.preview')}</h3>
        <Part result={preview}>
          {changes.length === 0 ? <p className="text-ink-3">{t('history.nothing')}</p> : null}
          <div className="max-h-[40vh] overflow-y-auto" data-preview>
            <ChangeList changes={changes} />
          </div>
        </Part>
      </section>
      {warnings.length > 0 ? (
        <section className="flex flex-col gap-1">
          <h3 className="font-semibold">{t('history.warnings')}</h3>
          <ul className="text-warn">
            {warnings.map(warning => (
              <li key={warning}>
                <GatewayText text={warning} />
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <Field label={t('history.reason')} error={errorOf('reason')} help={t('history.reason_help')}>
        {wiring => <TextInput {...wiring} {...form.register('reason')} maxLength={200} />}
      </Field>
    </FormDialog>
  )
}
