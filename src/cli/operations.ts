import { SYSTEM } from '../domain/actor.ts'
import { Refusal } from '../domain/errors.ts'
import { mask } from '../domain/text.ts'
import { NEVER } from '../domain/token.ts'
import { newAccessToken, newPassword } from '../identity/credentials.ts'
import { OPERATOR } from '../identity/passwords.ts'
import { type Trx, transact } from '../store/engine/store.ts'
import { deleteAccessTokensOf, insertAccessToken } from '../store/records/access-tokens.ts'
import { appendAudit } from '../store/records/audit.ts'
import { endSessions } from '../store/records/sessions.ts'
import { findUserByName, updateUser } from '../store/records/users.ts'
import { createBackup } from './backup.ts'
import { CommandError, type OperationDeps } from './command.ts'
import { createReplay } from './replay.ts'
import { createRotation } from './rotation.ts'
import { createVerify } from './verify.ts'

/** The operations behind the commands, for a running server or without one. */
export function createOperations(deps: OperationDeps) {
  const { db, now, passwords, digest } = deps

  async function mustFind(username: string) {
    const user = await findUserByName(db, username)
    if (!user) throw new CommandError(`user "${username}" does not exist`)
    return user
  }

  const record = (trx: Trx, action: string, target: string, after?: unknown) =>
    appendAudit(trx, {
      time: now(),
      actor_id: 0,
      actor_name: SYSTEM,
      via: `command:${action}`,
      address: '',
      request_id: '',
      action,
      target,
      before: null,
      after: after === undefined ? null : JSON.stringify(after),
    })

  async function resetPassword({
    username,
    password = newPassword(),
    revokeAccessTokens = false,
  }: {
    username: string
    password?: string
    revokeAccessTokens?: boolean
  }) {
    const length = [...password].length
    if (length < 8 || length > 128) throw new CommandError('the password must have 8 to 128 characters')
    const user = await mustFind(username)
    const password_hash = await passwords.hash(password, OPERATOR)
    await transact(db, async trx => {
      // An operator resets a password to regain access, so a disabled user is enabled as well.
      await updateUser(trx, user, { password_hash, status: 1 })
      await endSessions(trx, user.id, now())
      await record(trx, 'user.password', `user:${user.id}`)
      if (!revokeAccessTokens) return
      await deleteAccessTokensOf(trx, user.id)
      await record(trx, 'access_token.revoke_all', `user:${user.id}`)
    })
    await deps.announce([`user:${user.id}`])
    return { password }
  }

  async function accessToken({ username, name }: { username: string; name: string }) {
    const user = await mustFind(username)
    const token = newAccessToken()
    await transact(db, async trx => {
      const id = await insertAccessToken(trx, {
        user_id: user.id,
        name,
        digest: digest(token),
        hint: mask(token),
        created_time: now(),
        expired_time: NEVER,
      })
      await record(trx, 'access_token.create', `access_token:${id}`)
    })
    return { token }
  }

  const rotation = createRotation(deps, record)
  const verify = createVerify({ ...deps, record })
  const explain = ({ text }: { text: string }) =>
    deps.explain(text).catch(error => {
      throw error instanceof Refusal ? new CommandError('no request in the log matches') : error
    })
  return {
    resetPassword,
    accessToken,
    verify,
    explain,
    replay: createReplay(deps, record),
    rotateSecret: rotation,
    backup: createBackup(deps),
  }
}

export type Operations = ReturnType<typeof createOperations>
