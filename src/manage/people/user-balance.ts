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
  /** Nanodollars; less than 0 takes. */
  readonly amount: number
  readonly reason: string
  /** What the caller named the amount. */
  readonly field: string
}
type Override = Omit<Move, 'amount'> & { readonly units: number }
type Limiting = Pick<Move, 'actor' | 'user'> & { readonly unlimited: boolean }

/** What is free of a quota is left minus held; more than that cannot be taken back. */
const tooMuchTaken = ({ credited, posted, held: heldNanos }: UserWithAccount) =>
  new Refusal(
    'conflict',
    `the user has ${unitsLeft(Math.max(0, credited - posted))} units left, of which ${unitsUsed(heldNanos)} are held by running requests`,
  )

/** What administrators do to a balance: money moves by an entry that says who moved it and why. */
export function createUserBalance(now: () => number) {
  /** Its owner reads of it in the log. */
  async function move(trx: Trx, { actor, user, amount, reason, field }: Move): Promise<void> {
    if (amount === 0) return
    const time = now()
    const entry = { userId: user.id, amount, actor: actorLabel(actor), reason, time }
    if (!(await post(trx, { kind: 'grant', ...entry })))
      throw amount < 0
        ? tooMuchTaken(user)
        : invalidField(field, 'would take the quota beyond what an account can hold')
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

    /** Sets what is left; the entry says by how much that moved it. */
    async override(trx: Trx, { units, ...request }: Override): Promise<void> {
      const { credited, posted, held: heldNanos } = request.user
      const amount = nanosOf(units) - (credited - posted)
      if (amount !== 0 && nanosOf(units) < heldNanos) throw tooMuchTaken(request.user)
      await move(trx, { ...request, amount })
    },

    /** An unlimited user may have spent more than was ever granted; once limited, it stands at nothing left. */
    async limit(trx: Trx, { actor, user, unlimited }: Limiting): Promise<void> {
      const missing = user.held - (user.credited - user.posted)
      if (!unlimited && missing > 0)
        await move(trx, { actor, user, amount: missing, reason: 'limited again', field: 'unlimited_quota' })
      await setUnlimited(trx, { kind: 'user', ownerId: user.id }, unlimited)
    },
  }
}
