import { type Actor, actorLabel } from '../../domain/actor.ts'
import { type BodyMode, bodyModeOf } from '../../domain/body-log.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import { mergeLimits, parseLimits } from '../../domain/limits.ts'
import { nanosOf, unitsLeft, unitsUsed } from '../../domain/money.ts'
import { outranks, ROLE, type Role, roleName } from '../../domain/role.ts'
import { isImportedHash } from '../../identity/imported-hash.ts'
import { signedIn } from '../../identity/passwords.ts'
import { lockAccount, openAccount, post } from '../../store/books/accounts.ts'
import type { UserRow } from '../../store/engine/schema.ts'
import { type Db, isUniqueViolation, type Trx } from '../../store/engine/store.ts'
import { endSessions } from '../../store/records/sessions.ts'
import {
  countRoots,
  eraseUser,
  findUser,
  insertUser,
  listUsers,
  type UserChange,
  type UserWithAccount,
  updateUser,
} from '../../store/records/users.ts'
import { eraseBodies } from '../../store/usage/bodies.ts'
import { eraseTags } from '../../store/usage/tag-sums.ts'
import type { Query } from '../contract/route.ts'
import type { userContract } from '../contract/users.ts'
import type { Changing, Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'
import { presentPage } from '../server/page.ts'
import { endCredentials, mustComeWithPassword } from './password-change.ts'
import { createUserBalance } from './user-balance.ts'

export const presentUser = (row: UserWithAccount) => ({
  id: row.id,
  username: row.username,
  display_name: row.display_name,
  role: row.role,
  status: row.status,
  email: row.email,
  group: row.user_group,
  quota: unitsLeft(Math.max(0, row.credited - row.posted)),
  unlimited_quota: row.unlimited === 1,
  used_quota: unitsUsed(row.posted),
  held_quota: unitsUsed(row.held),
  request_count: row.request_count,
  created_time: row.created_time,
  last_login_time: row.last_login_time,
  limits: parseLimits(row.limits),
  log_bodies: bodyModeOf(row.log_bodies),
})

/** The own account. A user who signed in with an imported password that breaks the rule for passwords must change it. */
export const presentSelf = (row: UserWithAccount) => ({
  ...presentUser(row),
  password_change_required: isImportedHash(row.password_hash),
})

export async function mustFindUser(db: Db, id: number): Promise<UserWithAccount> {
  const row = await findUser(db, id)
  if (!row) throw notFound('user')
  return row
}

/** The user, locked with its account until the transaction ends. */
export async function mustHoldUser(trx: Trx, id: number): Promise<UserWithAccount> {
  await lockAccount(trx, { kind: 'user', ownerId: id })
  return mustFindUser(trx, id)
}

/** A duplicate username is a conflict, also when two requests race. */
export async function claimName<T>(write: Promise<T>): Promise<T> {
  try {
    return await write
  } catch (error) {
    if (isUniqueViolation(error)) throw new Refusal('conflict', 'This username is taken. Choose another one.')
    throw error
  }
}

type NewAccount = {
  readonly username: string
  readonly displayName?: string | undefined
  readonly email?: string | undefined
  readonly group?: string | undefined
  readonly passwordHash: string
  readonly role: Role
  readonly unlimited: boolean
  readonly quota: number
  readonly author: string
  readonly time: number
}

/** A user and its account, with the initial quota as the first entry. */
export async function createAccount(trx: Trx, account: NewAccount): Promise<UserWithAccount> {
  const id = await claimName(
    insertUser(trx, {
      username: account.username,
      displayName: account.displayName ?? account.username,
      passwordHash: account.passwordHash,
      role: account.role,
      time: account.time,
      email: account.email ?? '',
      group: account.group || 'default',
    }),
  )
  await openAccount(trx, { kind: 'user', ownerId: id }, account.unlimited)
  if (account.quota > 0)
    await post(trx, {
      kind: 'grant',
      userId: id,
      amount: nanosOf(account.quota),
      actor: account.author,
      reason: 'user created',
      time: account.time,
    })
  return mustFindUser(trx, id)
}

/** The retention job removes the tags and bodies of further requests. */
const ERASED_AT_ONCE = 10_000
const ERASED_BODIES_AT_ONCE = 1_000

/** Deletes a user: tokens and credentials stop working with this transaction. */
export async function deleteAccount(
  { trx, audit }: Changing,
  user: UserWithAccount,
  { now, engine }: Pick<Deps, 'now' | 'engine'>,
): Promise<void> {
  if (user.role === ROLE.root && (await countRoots(trx)) <= 1)
    throw new Refusal('conflict', 'The last root user cannot be deleted.')
  await eraseUser(trx, user.id, now())
  await eraseTags({ db: trx, engine }, user.id, ERASED_AT_ONCE)
  await eraseBodies({ trx, engine }, user.id, ERASED_BODIES_AT_ONCE)
  audit({ action: 'user.delete', target: `user:${user.id}`, before: presentUser(user) })
}

/** The users of the instance, for administrators (docs/reference/management-api.md: Users). */
export function createUserHandlers({
  db,
  engine,
  now,
  passwords,
  ledger,
}: Deps): Handlers<typeof userContract> {
  const balance = createUserBalance(now)

  function mustOutrank(actor: Actor, target: Pick<UserRow, 'role'>): void {
    if (!outranks(actor.role, target.role as Role))
      throw new Refusal(
        'forbidden',
        `You can only manage users with a role below your own; this user is ${roleName(target.role as Role)}.`,
      )
  }
  const mustGrant = (actor: Actor, role: Role) => {
    if (!outranks(actor.role, role))
      throw new Refusal('forbidden', `You can only assign a role below your own, not ${roleName(role)}.`)
  }

  /** Bodies may be confidential, so an administrator cannot have those of other users kept. */
  function mustMayKeepBodies(actor: Actor, user: Pick<UserRow, 'log_bodies'>, mode: BodyMode): void {
    if (actor.role === ROLE.root || mode === bodyModeOf(user.log_bodies)) return
    const message = 'can be changed by the user or by Root only'
    throw new Refusal('forbidden', `log_bodies ${message}`, { errors: [{ path: 'log_bodies', message }] })
  }

  const list = async ({ query }: { query: Query<(typeof userContract)['listUsers']> }) => {
    const { paging, ...filter } = query
    return presentPage(await listUsers(db, filter, paging), paging, presentUser)
  }

  type ManageCall = Parameters<Handlers<typeof userContract>['manageUser']>[0]

  /** The change that each action of `/api/user/manage` makes, and its conditions. */
  const ACTIONS: Record<
    ManageCall['body']['action'],
    (changing: Changing, call: ManageCall, user: UserWithAccount) => Promise<void>
  > = {
    enable: ({ trx }, _call, user) => updateUser(trx, user, { status: 1 }),
    disable: async ({ trx }, _call, user) => {
      await updateUser(trx, user, { status: 2 })
      await endSessions(trx, user.id, now())
    },
    promote: async ({ trx }, { actor }, user) => {
      mustGrant(actor, ROLE.admin)
      if (user.role >= ROLE.admin) throw new Refusal('conflict', 'This user is already an administrator.')
      await updateUser(trx, user, { role: ROLE.admin })
    },
    demote: async ({ trx }, _call, user) => {
      if (user.role === ROLE.user) throw new Refusal('conflict', 'This user is not an administrator.')
      await updateUser(trx, user, { role: ROLE.user })
    },
    add_quota: async ({ trx }, { actor, body }, user) => {
      const { value, mode = 'add' } = body
      if (value === undefined) throw invalidField('value', 'is required: the number of units')
      if (value < 0) throw invalidField('value', 'must not be negative; use mode "subtract"')
      const reason = body.reason || `quota ${mode}`
      const move = { actor, user, reason, field: 'value' }
      if (mode === 'override') await balance.override(trx, { ...move, units: value })
      else if (mode === 'add') await balance.add(trx, { ...move, amount: nanosOf(value) })
      else await balance.move(trx, { ...move, amount: -nanosOf(value) })
    },
    delete: (changing, _call, user) => deleteAccount(changing, user, { now, engine }),
  }

  return {
    listUsers: list,
    searchUsers: list,
    getUser: async ({ params, reply }) => {
      await markIfStale(reply, ledger.catchUp({ kind: 'user', ownerId: params.id }))
      return presentUser(await mustFindUser(db, params.id))
    },

    createUser: async ({ actor, body, change }) => {
      const role = body.role ?? ROLE.user
      mustGrant(actor, role)
      const passwordHash = await passwords.hash(body.password, signedIn(actor))
      return change(async ({ trx, audit }) => {
        const user = await createAccount(trx, {
          username: body.username,
          displayName: body.display_name,
          email: body.email,
          group: body.group,
          passwordHash,
          role,
          unlimited: body.unlimited_quota ?? false,
          quota: body.quota ?? 0,
          author: actorLabel(actor),
          time: now(),
        })
        if (body.limits) await updateUser(trx, user, { limits: mergeLimits(body.limits) })
        const view = presentUser(await mustFindUser(trx, user.id))
        audit({ action: 'user.create', target: `user:${user.id}`, after: view })
        return view
      })
    },

    updateUser: async ({ actor, body, change }) => {
      mustOutrank(actor, await mustFindUser(db, body.id))
      if (body.role !== undefined) mustGrant(actor, body.role)
      mustComeWithPassword(body)
      const passwordHash =
        body.password === undefined ? undefined : await passwords.hash(body.password, signedIn(actor))
      await ledger.flushAndReturn({ kind: 'user', ownerId: body.id })
      return change(async ({ trx, audit }) => {
        const before = await mustHoldUser(trx, body.id)
        // Checked again inside the transaction: the user may have been promoted meanwhile.
        mustOutrank(actor, before)
        const fields: UserChange = {}
        if (body.username !== undefined) fields.username = body.username
        if (body.display_name !== undefined) fields.display_name = body.display_name
        if (body.email !== undefined) fields.email = body.email
        if (body.role !== undefined) fields.role = body.role
        if (body.status !== undefined) fields.status = body.status
        if (body.group !== undefined) fields.user_group = body.group || 'default'
        if (passwordHash !== undefined) fields.password_hash = passwordHash
        if (body.limits !== undefined) fields.limits = mergeLimits(body.limits, before.limits)
        if (body.log_bodies !== undefined) {
          mustMayKeepBodies(actor, before, body.log_bodies)
          fields.log_bodies = body.log_bodies
        }
        await claimName(updateUser(trx, before, fields))
        if (passwordHash !== undefined)
          await endCredentials({ trx, audit }, { userId: before.id, change: body, time: now() })
        else if (body.status === 2) await endSessions(trx, before.id, now())
        const leftUnits = unitsLeft(Math.max(0, before.credited - before.posted))
        if (body.quota !== undefined && body.quota !== leftUnits)
          await balance.override(trx, {
            actor,
            user: before,
            units: body.quota,
            reason: 'quota set with the user',
            field: 'quota',
          })
        if (body.unlimited_quota !== undefined)
          await balance.limit(trx, {
            actor,
            user: await mustFindUser(trx, before.id),
            unlimited: body.unlimited_quota,
          })
        const after = presentUser(await mustFindUser(trx, before.id))
        const action = passwordHash === undefined ? 'user.update' : 'user.password'
        audit({ action, target: `user:${before.id}`, before: presentUser(before), after })
        return after
      })
    },

    deleteUser: async ({ actor, params, change }) =>
      change(async changing => {
        const user = await mustHoldUser(changing.trx, params.id)
        mustOutrank(actor, user)
        await deleteAccount(changing, user, { now, engine })
        return undefined
      }),

    manageUser: async call => {
      await ledger.flushAndReturn({ kind: 'user', ownerId: call.body.id })
      return call.change(async changing => {
        const before = await mustHoldUser(changing.trx, call.body.id)
        mustOutrank(call.actor, before)
        await ACTIONS[call.body.action](changing, call, before)
        if (call.body.action === 'delete') return null
        const after = presentUser(await mustFindUser(changing.trx, before.id))
        changing.audit({
          action: `user.${call.body.action}`,
          target: `user:${before.id}`,
          before: presentUser(before),
          after,
        })
        return after
      })
    },
  }
}
