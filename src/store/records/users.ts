import { NANOS_PER_UNIT } from '../../domain/money.ts'
import { ROLE } from '../../domain/role.ts'
import { fold } from '../../domain/text.ts'
import {
  boundedCount,
  containing,
  like,
  nonEmptyIds,
  type Page,
  type Paging,
  pageOf,
} from '../engine/page.ts'
import type { AccountRow, UserRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

export type UserWithAccount = UserRow &
  Pick<AccountRow, 'unlimited' | 'credited' | 'posted' | 'held' | 'request_count'>

/** The text that searches match, in a column of its own so that a search scans a narrow index. */
const searchText = (user: { username: string; display_name: string; email: string }) =>
  fold([user.username, user.display_name, user.email].filter(part => part !== '').join(' '))

const withAccount = (db: Db) =>
  db
    .selectFrom('users')
    .innerJoin('accounts', join =>
      join.onRef('accounts.owner_id', '=', 'users.id').on('accounts.kind', '=', 'user'),
    )
    .selectAll('users')
    .select([
      'accounts.unlimited',
      'accounts.credited',
      'accounts.posted',
      'accounts.held',
      'accounts.request_count',
    ])

export const findUser = (db: Db, id: number): Promise<UserWithAccount | undefined> =>
  withAccount(db).where('users.id', '=', id).where('users.deleted_time', 'is', null).executeTakeFirst()

export const findUserByName = (db: Db, username: string): Promise<UserRow | undefined> =>
  db
    .selectFrom('users')
    .selectAll()
    .where('username_key', '=', fold(username))
    .where('deleted_time', 'is', null)
    .executeTakeFirst()

type UserFilter = {
  readonly keyword?: string | undefined
  readonly group?: string | undefined
  readonly role?: number | undefined
  readonly status?: number | undefined
  /** In units; users without a limit never match. */
  readonly quota_below?: number | undefined
}

/** Balances are presented in units, rounded down: less than `units` means fewer nanodollars than that many whole units. */
const withLess = (db: Db, units: number) =>
  db
    .selectFrom('accounts')
    .select('owner_id')
    .where('kind', '=', 'user')
    .where('unlimited', '=', 0)
    .where(row => row(row('credited', '-', row.ref('posted')), '<', units * NANOS_PER_UNIT))

export async function listUsers(db: Db, filter: UserFilter, paging: Paging): Promise<Page<UserWithAccount>> {
  let ids = db.selectFrom('users').select('users.id').where('users.deleted_time', 'is', null)
  if (filter.keyword) {
    const pattern = containing(fold(filter.keyword))
    const id = Number(filter.keyword)
    ids = ids.where(row =>
      Number.isSafeInteger(id)
        ? row.or([like('users.search', pattern), row('users.id', '=', id)])
        : like('users.search', pattern),
    )
  }
  if (filter.group !== undefined) ids = ids.where('users.user_group', '=', filter.group)
  if (filter.role !== undefined) ids = ids.where('users.role', '=', filter.role)
  if (filter.status !== undefined) ids = ids.where('users.status', '=', filter.status)
  if (filter.quota_below !== undefined) ids = ids.where('users.id', 'in', withLess(db, filter.quota_below))
  const total = boundedCount(db, ids)
  // The page's ids come from the index alone; whole rows are read for the page only.
  const page = await pageOf(ids.orderBy('users.id', 'desc'), total, paging)
  const rows = await withAccount(db)
    .where('users.id', 'in', nonEmptyIds(page.items.map(row => row.id)))
    .orderBy('users.id', 'desc')
    .execute()
  return { items: rows, total: page.total }
}

export type NewUser = {
  readonly username: string
  readonly displayName: string
  readonly passwordHash: string
  readonly role: number
  readonly time: number
  readonly email?: string
  readonly group?: string
}

export async function insertUser(trx: Trx, user: NewUser): Promise<number> {
  const email = user.email ?? ''
  const { id } = await trx
    .insertInto('users')
    .values({
      username: user.username,
      username_key: fold(user.username),
      display_name: user.displayName,
      email,
      search: searchText({ username: user.username, display_name: user.displayName, email }),
      password_hash: user.passwordHash,
      role: user.role,
      status: 1,
      user_group: user.group ?? 'default',
      limits: '{}',
      created_time: user.time,
      last_login_time: 0,
      deleted_time: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export type NewUserRow = Pick<
  UserRow,
  | 'username'
  | 'display_name'
  | 'email'
  | 'password_hash'
  | 'role'
  | 'status'
  | 'user_group'
  | 'limits'
  | 'created_time'
>

/** Inserts many users. Returns the ids in the order of the users. */
export async function insertUsers(trx: Trx, users: readonly NewUserRow[]): Promise<number[]> {
  if (users.length === 0) return []
  const rows = await trx
    .insertInto('users')
    .values(
      users.map(user => ({
        ...user,
        username_key: fold(user.username),
        search: searchText(user),
        last_login_time: 0,
        deleted_time: null,
      })),
    )
    .returning('id')
    .execute()
  // Ids are assigned in the order of the rows, but neither engine guarantees to return them in it.
  return rows.map(row => row.id).sort((a, b) => a - b)
}

/** The folded names of all users, those of deleted ones included. */
export async function listUsernameKeys(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('users').select('username_key').execute()
  return rows.map(row => row.username_key)
}

/** Users by their ids; deleted ones are missing. */
export const findUsersById = (db: Db, ids: readonly number[]): Promise<UserWithAccount[]> =>
  withAccount(db)
    .where('users.id', 'in', nonEmptyIds(ids))
    .where('accounts.owner_id', 'in', nonEmptyIds(ids))
    .where('users.deleted_time', 'is', null)
    .execute()

export type UserChange = Partial<
  Pick<
    UserRow,
    | 'username'
    | 'display_name'
    | 'email'
    | 'password_hash'
    | 'role'
    | 'status'
    | 'limits'
    | 'user_group'
    | 'log_bodies'
  >
>

export async function updateUser(trx: Trx, current: UserRow, change: UserChange): Promise<void> {
  const { username, display_name, email } = { ...current, ...change }
  await trx
    .updateTable('users')
    .set({ ...change, username_key: fold(username), search: searchText({ username, display_name, email }) })
    .where('id', '=', current.id)
    .execute()
}

export async function touchLogin(trx: Trx, id: number, time: number): Promise<void> {
  await trx.updateTable('users').set({ last_login_time: time }).where('id', '=', id).execute()
}

/** Deletes the personal data and all credentials of a user. The id and the ledger are kept. */
export async function eraseUser(trx: Trx, id: number, time: number): Promise<void> {
  await trx.deleteFrom('tokens').where('user_id', '=', id).execute()
  await trx.deleteFrom('access_tokens').where('user_id', '=', id).execute()
  await trx.deleteFrom('sessions').where('user_id', '=', id).execute()
  await trx.deleteFrom('saved_tests').where('user_id', '=', id).execute()
  await trx
    .updateTable('users')
    .set({
      username: `deleted-${id}`,
      username_key: `deleted-${id}`,
      display_name: '',
      email: '',
      search: '',
      password_hash: '',
      status: 2,
      deleted_time: time,
    })
    .where('id', '=', id)
    .execute()
}

export async function countRoots(trx: Trx): Promise<number> {
  const rows = await trx
    .selectFrom('users')
    .select('id')
    .where('role', '=', ROLE.root)
    .where('status', '=', 1)
    .where('deleted_time', 'is', null)
    .execute()
  return rows.length
}
