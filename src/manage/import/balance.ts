import { SYSTEM } from '../../domain/actor.ts'
import { unitsUsed } from '../../domain/money.ts'
import { post } from '../../store/books/accounts.ts'
import type { AccountRow } from '../../store/engine/schema.ts'
import type { Trx } from '../../store/engine/store.ts'
import type { ImportContext, ImportState } from './context.ts'
import type { AmountDifference } from './difference.ts'
import type { Amount } from './inventory.ts'

type Account = Pick<AccountRow, 'credited' | 'posted' | 'held'>

/** The difference of the source since the last import. What was spent or granted here stays; no balance goes below 0. */
export function amountDifference(
  source: Amount,
  { nanos: last = 0 }: ImportState,
  here: Account,
): AmountDifference {
  // An unlimited balance there is no amount that could be compared.
  if (source.isUnlimited) return { nanos: 0, missing: 0 }
  const difference = source.nanos - last
  if (difference >= 0) return { nanos: difference, missing: 0 }
  const free = Math.max(0, here.credited - here.posted - here.held)
  const reduction = Math.min(-difference, free)
  return { nanos: reduction === 0 ? 0 : -reduction, missing: -difference - reduction }
}

type Booking = {
  readonly kind: 'grant' | 'limit'
  readonly userId: number
  readonly tokenId?: number
  readonly nanos: number
}

/** Books a difference; false if the account cannot take it. */
export const bookDifference = (
  trx: Trx,
  { source, now }: Pick<ImportContext, 'source' | 'now'>,
  { kind, userId, tokenId, nanos }: Booking,
): Promise<boolean> =>
  post(trx, {
    kind,
    userId,
    ...(tokenId === undefined ? {} : { tokenId }),
    amount: nanos,
    actor: SYSTEM,
    reason: `difference since the last import from ${source}`,
    time: now(),
  })

export const openingReason = (source: string) => `opening balance from ${source}`

export const missingMessage = (missing: number) =>
  `its quota there has fallen by ${unitsUsed(missing)} units more than is left here; the balance here becomes 0`
