import { invalidField } from '../../domain/errors.ts'
import { deleteAccessTokensOf } from '../../store/records/access-tokens.ts'
import { endSessions } from '../../store/records/sessions.ts'
import type { Changing } from '../server/call.ts'

type PasswordChange = {
  readonly password?: string | undefined
  readonly revoke_access_tokens?: boolean | undefined
}

export function mustComeWithPassword({ password, revoke_access_tokens }: PasswordChange): void {
  if (revoke_access_tokens && password === undefined)
    throw invalidField('revoke_access_tokens', 'requires a new password in the same request')
}

type Ending = { readonly userId: number; readonly change: PasswordChange; readonly time: number }

/** Ends every session after a new password, and on request every system access token of the user. */
export async function endCredentials(
  { trx, audit }: Changing,
  { userId, change, time }: Ending,
): Promise<void> {
  await endSessions(trx, userId, time)
  if (!change.revoke_access_tokens) return
  const count = await deleteAccessTokensOf(trx, userId)
  audit({ action: 'access_token.revoke_all', target: `user:${userId}`, after: { count } })
}
