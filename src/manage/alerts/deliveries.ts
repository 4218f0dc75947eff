import { describeAlert } from '../../domain/alert.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import {
  type AlertDelivery,
  findDelivery,
  listDeliveries,
  reviveDelivery,
} from '../../store/records/alert-deliveries.ts'
import { targetNames } from '../../store/records/alert-targets.ts'
import type { alertContract } from '../contract/alerts.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

const presentDelivery = (delivery: AlertDelivery, targets: ReadonlyMap<number, string>) => {
  const { notices, claimed_until: _claimed, next_time, ...rest } = delivery
  const [first] = notices
  return {
    ...rest,
    target: targets.get(delivery.target_id) ?? '',
    title: first ? describeAlert(first, 'en').title : '',
    alerts: notices.map(notice => ({ ...notice, values: { ...notice.values } })),
    next_time: delivery.status === 'pending' ? next_time : null,
  }
}

type DeliveryHandlers = Pick<Handlers<typeof alertContract>, 'listAlertDeliveries' | 'retryAlertDelivery'>

/** Messages to targets (docs/reference/alerts.md: Deliveries). */
export function createDeliveryHandlers({ db, now }: Pick<Deps, 'db' | 'now'>): DeliveryHandlers {
  return {
    listAlertDeliveries: async ({ query: { paging, status, target_id } }) => {
      const filter = { status: status === '' ? undefined : status, targetId: target_id }
      const [page, names] = await Promise.all([listDeliveries(db, filter, paging), targetNames(db)])
      return presentPage(page, paging, delivery => presentDelivery(delivery, names))
    },

    retryAlertDelivery: async ({ params, change }) =>
      change(async ({ trx, audit }) => {
        const delivery = await findDelivery(trx, params.id)
        if (!delivery) throw notFound('delivery')
        if (!(await reviveDelivery(trx, delivery.id, now())))
          throw new Refusal('conflict', 'Only a dead delivery can be retried.')
        audit({ action: 'alert_delivery.retry', target: `alert_delivery:${delivery.id}` })
        const revived = (await findDelivery(trx, delivery.id)) ?? delivery
        return presentDelivery(revived, await targetNames(trx))
      }),
  }
}
