import { useTranslation } from 'react-i18next'
import type { BodyMode } from '../../../../src/domain/body-log.ts'
import { useRouteMutation } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { BodyModeField } from '../../look/body-mode.tsx'
import { Sheet } from '../../look/page.tsx'
import { useErrorText } from '../../look/states.tsx'
import { toast } from '../../look/toast.tsx'

/** Which bodies of all of the user's requests are kept. */
export function BodyLog() {
  const { t } = useTranslation()
  const words = useErrorText()
  const { log_bodies } = useSelf()
  const update = useRouteMutation('updateSelf')
  return (
    <Sheet title={t('bodies.title')}>
      <div className="flex max-w-[640px] flex-col gap-2 p-4">
        <BodyModeField
          mode={log_bodies}
          value={log_bodies}
          disabled={update.isPending}
          error={update.error ? words(update.error) : undefined}
          onChange={event =>
            update.mutate(
              { body: { log_bodies: event.target.value as BodyMode } },
              { onSuccess: () => toast(t('me.saved')) },
            )
          }
        />
      </div>
    </Sheet>
  )
}
