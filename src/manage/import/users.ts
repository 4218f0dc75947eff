import { SYSTEM } from '../../domain/actor.ts'
import { mask } from '../../domain/text.ts'
import { NEVER } from '../../domain/token.ts'
import { lockAccount, setUnlimited } from '../../store/books/accounts.ts'
import { chainKeyOf } from '../../store/books/chain-key.ts'
import { openAccounts } from '../../store/books/opening.ts'
import { statesOfRows } from '../../store/engine/row-states.ts'
import type { ImportRow } from '../../store/engine/schema.ts'
import { type Trx, transact } from '../../store/engine/store.ts'
import { deleteAccessToken, findAccessToken, insertAccessToken } from '../../store/records/access-tokens.ts'
import { findImport, findImports, saveImports } from '../../store/records/imports.ts'
import { endSessions } from '../../store/records/sessions.ts'
import {
  findUsersById,
  insertUsers,
  listUsernameKeys,
  type NewUserRow,
  type UserChange,
  type UserWithAccount,
  updateUser,
} from '../../store/records/users.ts'
import { amountDifference, bookDifference, missingMessage, openingReason } from './balance.ts'
import {
  auditImport,
  type ImportContext,
  type ImportState,
  importRow,
  returnedMessage,
  stateOf,
} from './context.ts'
import { conflictMessage, differenceOf, digestFields } from './difference.ts'
import type { SourceGateway, SourceUser } from './inventory.ts'
import { createUsernames, usernameOf } from './names.ts'
import { quoted } from './values.ts'

const ENABLED = 1
const DISABLED = 2

/** The fields that follow the source; a name stays as it was given here. */
const fieldsOf = (user: SourceUser) => ({
  display_name: user.displayName,
  email: user.email,
  password_hash: user.passwordHash,
  role: user.role,
  status: user.isEnabled ? ENABLED : DISABLED,
  user_group: user.group,
  limits: user.limits,
  unlimited: user.isUnlimited ? 1 : 0,
})

const fieldsHere = (user: UserWithAccount) => ({
  display_name: user.display_name,
  email: user.email,
  password_hash: user.password_hash,
  role: user.role,
  status: user.status,
  user_group: user.user_group,
  limits: user.limits,
  unlimited: user.unlimited,
})

/** Imports users with their balances and system access tokens. Returns our ids by those of the source. */
export async function importUsers(
  context: ImportContext,
  gateway: Pick<SourceGateway, 'users' | 'isDeletion'>,
): Promise<ReadonlyMap<string, number>> {
  const { db, digest, isDry, notes, now, source } = context
  const imported = await findImports(db, source, 'user')
  const access = await findImports(db, source, 'access_token')
  const usernames = createUsernames(await listUsernameKeys(db))
  const seenIds = new Set<string>()
  const ids = new Map([...imported.values()].map(row => [row.source_id, row.target_id]))

  const stateFor = (user: SourceUser, nanos: number): ImportState => ({
    anchor: user.anchor,
    nanos,
    fields: { ...digestFields(fieldsOf(user), digest), ...digestFields({ name: user.name }, digest) },
  })

  function rowFor(user: SourceUser): NewUserRow {
    const preferredName = usernameOf(user.name, user.sourceId)
    const username = usernames.claim(preferredName)
    if (username !== user.name) notes.note('user', user.label, `its name becomes ${quoted(username)}`)
    const { unlimited: _unlimited, ...fields } = fieldsOf(user)
    return {
      ...fields,
      username,
      display_name: user.displayName || username,
      created_time: user.createdTime || now(),
    }
  }

  const accessFields = (user: SourceUser) => digestFields({ value: user.accessToken }, digest)

  const isAccessSame = (user: SourceUser): boolean => {
    const last = access.get(user.sourceId)
    return last === undefined
      ? user.accessToken === ''
      : stateOf(last).fields?.value === accessFields(user).value
  }

  /** A system access token of a user; the one of an earlier import is replaced if the source has another. */
  async function writeAccessToken(trx: Trx, user: SourceUser, userId: number): Promise<void> {
    if (isAccessSame(user)) return
    const last = access.get(user.sourceId)
    const fields = accessFields(user)
    const removed = last && last.target_id !== 0 && (await deleteAccessToken(trx, userId, last.target_id))
    // Revoked here: the source's newer one must not bring it back.
    if (last && last.target_id !== 0 && !removed) return
    let id = 0
    if (user.accessToken !== '') {
      if (await findAccessToken(trx, digest(user.accessToken))) {
        notes.note('user', user.label, 'its system access token exists here already; it is not carried over')
        return
      }
      id = await insertAccessToken(trx, {
        user_id: userId,
        name: source,
        digest: digest(user.accessToken),
        hint: mask(user.accessToken),
        created_time: now(),
        expired_time: NEVER,
      })
    }
    await saveImports(trx, [
      importRow(context, 'access_token', { sourceId: user.sourceId, targetId: id, state: { fields } }),
    ])
    await auditImport(trx, context, {
      action: id === 0 ? 'access_token.delete' : 'access_token.create',
      target: `access_token:${id || last?.target_id}`,
      after: { user_id: userId, name: source },
    })
  }

  async function create(users: readonly SourceUser[]): Promise<void> {
    if (users.length === 0) return
    const rows = users.map(rowFor)
    notes.count('users', 'created', users.length)
    const withAccess = users.filter(user => user.accessToken !== '')
    if (withAccess.length > 0) notes.count('system access tokens', 'created', withAccess.length)
    if (isDry) {
      for (const user of users) ids.set(user.sourceId, 0)
      return
    }
    const created = await transact(db, async trx => {
      const userIds = await insertUsers(trx, rows)
      await openAccounts(trx, {
        kind: 'user',
        accounts: users.map((user, index) => ({
          ownerId: userIds[index] as number,
          userId: userIds[index] as number,
          isUnlimited: user.isUnlimited,
          amount: user.nanos,
        })),
        actor: SYSTEM,
        reason: openingReason(source),
        time: now(),
      })
      await saveImports(
        trx,
        users.map((user, index) =>
          importRow(context, 'user', {
            sourceId: user.sourceId,
            targetId: userIds[index] as number,
            state: stateFor(user, user.nanos),
          }),
        ),
      )
      for (const [index, user] of users.entries()) await writeAccessToken(trx, user, userIds[index] as number)
      await auditImport(trx, context, {
        action: 'import.users',
        target: `import:${source}`,
        after: rows.map(({ username, role }, index) => ({ id: userIds[index], username, role })),
        states: await statesOfRows(trx, chainKeyOf(trx), 'user', userIds),
      })
      return userIds
    })
    for (const [index, user] of users.entries()) ids.set(user.sourceId, created[index] as number)
  }

  function decide(user: SourceUser, row: ImportRow, here: UserWithAccount) {
    const last = stateOf(row)
    const sides = {
      last,
      source: { ...fieldsOf(user), display_name: user.displayName || here.display_name },
      here: fieldsHere(here),
    }
    const difference = differenceOf(sides, amountDifference(user, last, here), digest)
    const change: UserChange & { unlimited?: number } = difference.change
    const state = stateFor(user, (last.nanos ?? 0) + difference.nanos)
    return { ...difference, here, change, state }
  }
  type Decision = ReturnType<typeof decide>

  /** Writes what the import changes. Undefined if the user was deleted here. */
  const write = (user: SourceUser, { source_id, target_id }: ImportRow): Promise<Decision | undefined> =>
    transact(db, async trx => {
      await lockAccount(trx, { kind: 'user', ownerId: target_id })
      // Read again: another machine that imports the same source may have booked the difference.
      const row = await findImport(trx, { source, kind: 'user', source_id })
      const [here] = await findUsersById(trx, [target_id])
      if (!here) return undefined
      const decision = decide(user, row, here)
      const { last, changed, change, nanos, isSame, state } = decision
      const { unlimited, ...columns } = change
      if (Object.keys(columns).length > 0) await updateUser(trx, here, columns)
      if (columns.password_hash !== undefined || columns.status === DISABLED)
        await endSessions(trx, here.id, now())
      if (unlimited !== undefined)
        await setUnlimited(trx, { kind: 'user', ownerId: here.id }, unlimited === 1)
      const isBooked =
        nanos === 0 || (await bookDifference(trx, context, { kind: 'grant', userId: here.id, nanos }))
      const newState = isBooked ? state : { ...state, nanos: last.nanos ?? 0 }
      if (JSON.stringify(newState) !== row.state)
        await saveImports(trx, [
          importRow(context, 'user', { sourceId: user.sourceId, targetId: here.id, state: newState }),
        ])
      await writeAccessToken(trx, user, here.id)
      if (!isSame)
        await auditImport(trx, context, {
          action: 'import.user',
          target: `user:${here.id}`,
          after: { fields: changed, nanos: isBooked ? nanos : 0 },
        })
      return { ...decision, isBooked }
    })

  function report(user: SourceUser, { last, here, conflicting, missing, isSame, isBooked }: Decision): void {
    const note = (message: string) => notes.note('user', user.label, message)
    if (last.fields?.name !== digestFields({ name: user.name }, digest).name)
      note(`was renamed there; its name here stays ${quoted(here.username)}`)
    if (conflicting.length > 0) note(conflictMessage(conflicting))
    if (last.isGone && user.isEnabled && here.status === DISABLED) note(returnedMessage)
    if (missing > 0) note(missingMessage(missing))
    if (!isBooked) note('the difference of its quota cannot be booked now; run the import again')
    notes.count('users', isSame ? 'unchanged' : 'changed')
  }

  /** Books the difference of the source, and takes over the fields that changed there only. */
  async function update(user: SourceUser, row: ImportRow, here: UserWithAccount | undefined): Promise<void> {
    let decision = here && decide(user, row, here)
    const isWritten = decision?.isSame && JSON.stringify(decision.state) === row.state && isAccessSame(user)
    if (decision && !isDry && !isWritten) decision = await write(user, row)
    if (!decision) {
      notes.count('users', 'skipped')
      notes.note('user', user.label, 'was deleted here and stays deleted')
      ids.delete(user.sourceId)
      return
    }
    report(user, decision)
    if (!isDry && !decision.isSame) await context.announce([`user:${decision.here.id}`])
  }

  /** Users that the source no longer has: they must not stay able to sign in here only because of the import. */
  async function disableGone(): Promise<void> {
    const gone = [...imported.values()].filter(row => !seenIds.has(row.source_id) && !stateOf(row).isGone)
    for (const row of gone) {
      if (gateway.isDeletion?.('user', row.source_id) === false) continue
      const [here] = await findUsersById(db, [row.target_id])
      const label = `user ${row.source_id}`
      if (!here || here.status === DISABLED) continue
      notes.count('users', 'changed')
      notes.note('user', label, `was deleted there; the user ${quoted(here.username)} becomes disabled here`)
      if (isDry) continue
      await transact(db, async trx => {
        await lockAccount(trx, { kind: 'user', ownerId: here.id })
        await updateUser(trx, here, { status: DISABLED })
        await endSessions(trx, here.id, now())
        const state = { ...stateOf(await findImport(trx, row)), isGone: true }
        await saveImports(trx, [
          importRow(context, 'user', { sourceId: row.source_id, targetId: here.id, state }),
        ])
        await auditImport(trx, context, {
          action: 'import.user',
          target: `user:${here.id}`,
          after: { fields: ['status'] },
        })
      })
      await context.announce([`user:${here.id}`])
    }
  }

  for await (const page of gateway.users()) {
    const users = page.filter(user => !seenIds.has(user.sourceId) && seenIds.add(user.sourceId))
    await create(users.filter(user => !imported.has(user.sourceId)))
    const earlier = users.flatMap(user => {
      const row = imported.get(user.sourceId)
      return row ? [{ user, row }] : []
    })
    const here = new Map(
      (
        await findUsersById(
          db,
          earlier.map(({ row }) => row.target_id),
        )
      ).map(row => [row.id, row]),
    )
    for (const { user, row } of earlier) await update(user, row, here.get(row.target_id))
  }
  await disableGone()
  return ids
}
