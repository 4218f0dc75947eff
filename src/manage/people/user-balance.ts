import { type Actor, actorLabel } from '../../domain/actor.ts'
import { invalidField, Refusal } from '../../domain/errors.ts'
import { nanosOf, unitsLeft, unitsUsed } from '../../domain/money.ts'
import { post, setUnlimited } from '../../store/books/accounts.ts'
import type { Trx } from '../../store/engine/store.ts'
import type { UserWithAccount } from '../../store/records/users.ts'
import { insertLog, LOG_TYPE } from '../../store/usage/logs.ts'

type Move = {
  readonly actor: Actor
  readonly user: UserWithAccount
  /** Nanodollars; a negative amount deducts. */
  readonly amount: number
  readonly reason: string
  /** The name of the field with the amount. */
  readonly field: string
}
type Override = Omit<Move, 'amount'> & { readonly units: number }
type Limiting = Pick<Move, 'actor' | 'user'> & { readonly unlimited: boolean }

/** The reason of an entry that sets a balance below 0 to 0. */
const LIMITED_AGAIN = 'limited again'

/** At most the unheld part of the remaining quota can be deducted. */
const tooMuchTaken = ({ credited, posted, held: heldNanos }: UserWithAccount) =>
  new Refusal(
    'conflict',
    `The user has ${unitsLeft(Math.max(0, credited - posted))} units left, of which ${unitsUsed(heldNanos)} are held by running requests.`,
  )

/** Balance changes by administrators. Each is a ledger entry with its author and reason. */
export function createUserBalance(now: () => number) {
  /** Adds a log row, which the owner of the account sees. */
  async function move(trx: Trx, { actor, user, amount, reason, field }: Move): Promise<void> {
    if (amount === 0) return
    const time = now()
    const entry = { userId: user.id, amount, actor: actorLabel(actor), reason, time }
    if (!(await post(trx, { kind: 'grant', ...entry })))
      throw amount < 0 ? tooMuchTaken(user) : invalidField(field, 'would exceed the maximum of an account')
    await insertLog(trx, {
      created_time: time,
      type: LOG_TYPE.topUp,
      user_id: user.id,
      cost: amount,
      content: reason,
    })
  }

  return {
    move,

    /**
     * Requests that run while an unlimited user becomes limited are charged in full. What they cost beyond the quota is not
     * deducted from quota that is added later.
     */
    async add(trx: Trx, request: Move): Promise<void> {
      const { unlimited, credited, posted } = request.user
      if (unlimited === 0 && posted > credited && request.amount > 0)
        await move(trx, { ...request, amount: posted - credited, reason: LIMITED_AGAIN })
      await move(trx, request)
    },

    /** Sets the remaining quota; the entry contains the difference. */
    async override(trx: Trx, { units, ...request }: Override): Promise<void> {
      const { credited, posted, held: heldNanos } = request.user
      const amount = nanosOf(units) - (credited - posted)
      if (amount !== 0 && nanosOf(units) < heldNanos) throw tooMuchTaken(request.user)
      await move(trx, { ...request, amount })
    },

    /** An unlimited user may have spent more than its credit. When it becomes limited, its balance is set to at least 0. */
    async limit(trx: Trx, { actor, user, unlimited }: Limiting): Promise<void> {
      const missing = user.held - (user.credited - user.posted)
      if (!unlimited && missing > 0)
        await move(trx, { actor, user, amount: missing, reason: LIMITED_AGAIN, field: 'unlimited_quota' })
      await setUnlimited(trx, { kind: 'user', ownerId: user.id }, unlimited)
    },
  }
}
