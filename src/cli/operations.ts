import { SYSTEM } from '../domain/actor.ts'
import type { CanaryCommands } from '../domain/canary-command.ts'
import type { ApplyInput, RollbackInput } from '../domain/config-change.ts'
import { Refusal } from '../domain/errors.ts'
import type { ImportRequest } from '../domain/import.ts'
import { codePoints, mask } from '../domain/text.ts'
import { NEVER } from '../domain/token.ts'
import { newAccessToken, newPassword } from '../identity/credentials.ts'
import { OPERATOR } from '../identity/passwords.ts'
import { type Trx, transact } from '../store/engine/store.ts'
import { deleteAccessTokensOf, insertAccessToken } from '../store/records/access-tokens.ts'
import { appendAudit } from '../store/records/audit.ts'
import { endSessions } from '../store/records/sessions.ts'
import { findUserByName, updateUser } from '../store/records/users.ts'
import { createBackup } from './backup.ts'
import { CommandError, type Configuration, type OperationDeps } from './command.ts'
import { createNodeOperations } from './node-operations.ts'
import { createReplay } from './replay.ts'
import { createRotation } from './rotation.ts'
import { createVerify } from './verify.ts'

/** One line for each invalid field; the first one is the message itself. */
const messageOf = ({ message, errors = [] }: Refusal) =>
  errors.length > 1 ? errors.map(error => `${error.path} ${error.message}`).join('\n') : message

type CanaryInputs = { readonly [name in keyof CanaryCommands]: Parameters<CanaryCommands[name]>[0] }

/** The configuration, whose refusals are messages for the operator. */
function refusalsAsErrors({ apply, export: exportConfig, revisions, rollback, canaries }: Configuration) {
  const report = (error: unknown): never => {
    throw error instanceof Refusal ? new CommandError(messageOf(error)) : error
  }
  return {
    applyConfig: (input: ApplyInput) => apply(input).catch(report),
    exportConfig: (_input: object) => exportConfig(),
    configLog: async ({ limit }: { limit: number }) =>
      (await revisions.list({ page: 1, pageSize: limit })).items,
    configRevision: ({ revision }: { revision: number }) => revisions.get(revision).catch(report),
    configDiff: ({ from, to }: { from: number; to?: number | undefined }) =>
      revisions.diff(from, to).catch(report),
    configRollback: (input: RollbackInput) => rollback(input).catch(report),
    listCanaries: (input: CanaryInputs['list']) => canaries.list(input).catch(report),
    startCanary: (input: CanaryInputs['start']) => canaries.start(input).catch(report),
    showCanary: (input: CanaryInputs['show']) => canaries.show(input).catch(report),
    updateCanary: (input: CanaryInputs['update']) => canaries.update(input).catch(report),
    actOnCanary: (input: CanaryInputs['act']) => canaries.act(input).catch(report),
  }
}

/** The operations behind the commands, for a running server or without one. */
export function createOperations(deps: OperationDeps) {
  const { db, now, passwords, digest } = deps

  async function mustFind(username: string) {
    const user = await findUserByName(db, username)
    if (!user) throw new CommandError(`user "${username}" does not exist`)
    return user
  }

  const record = async (trx: Trx, action: string, target: string, after?: unknown): Promise<void> => {
    await appendAudit(trx, {
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
  }

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

  async function accessToken({ username, name: text }: { username: string; name: string }) {
    const name = text.trim()
    if (name === '' || codePoints(name) > 50)
      throw new CommandError('the name of the token must have 1 to 50 characters')
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
  const importFrom = (request: ImportRequest) =>
    deps.importFrom(request).catch(error => {
      throw (error as Error).name === 'SourceError' ? new CommandError((error as Error).message) : error
    })
  return {
    ...refusalsAsErrors(deps.configuration),
    importFrom,
    resetPassword,
    accessToken,
    verify,
    explain,
    replay: createReplay(deps, record),
    rotateSecret: rotation,
    backup: createBackup(deps),
    ...createNodeOperations(deps, record),
  }
}

export type Operations = ReturnType<typeof createOperations>
