import { request } from 'node:http'
import { request as requestTls } from 'node:https'
import { mask } from '../domain/text.ts'
import { newAccessToken } from '../identity/credentials.ts'
import { type Trx, transact } from '../store/engine/store.ts'
import { deleteAccessToken, insertAccessToken } from '../store/records/access-tokens.ts'
import { findUserByName } from '../store/records/users.ts'
import { CommandError, type OperationDeps, type TestRun } from './command.ts'

/** The command ends its access token itself. This is for a process that is killed meanwhile. */
const TOKEN_LIFETIME_S = 3_600
const NAME = 'sluice replay'

type ReplayInput = { readonly username: string; readonly model?: string; readonly channel_id?: number }
type Reply = { readonly success: boolean; readonly message: string; readonly data: TestRun }

function post(url: string, token: string, body: unknown): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const isTls = url.startsWith('https:')
    const call = (isTls ? requestTls : request)(url, {
      method: 'POST',
      // The address is that of this process, which the certificate need not name.
      ...(isTls && { rejectUnauthorized: false }),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    })
    call.on('error', reject)
    call.on('response', async response => {
      try {
        const chunks: Buffer[] = []
        for await (const chunk of response) chunks.push(chunk)
        resolve(JSON.parse(Buffer.concat(chunks).toString('utf8')) as Reply)
      } catch (error) {
        reject(error)
      }
    })
    call.end(JSON.stringify(body))
  })
}

/** Runs the saved tests of a user on the running gateway, with an access token for this purpose only. */
export function createReplay(
  { db, digest, now, address }: OperationDeps,
  record: (trx: Trx, action: string, target: string) => Promise<void>,
) {
  return async function replay({ username, ...destination }: ReplayInput): Promise<TestRun> {
    const origin = address?.()
    if (origin === undefined)
      throw new CommandError('no gateway runs on this data directory: start it, then run this command again')
    const user = await findUserByName(db, username)
    if (!user) throw new CommandError(`user "${username}" does not exist`)
    const token = newAccessToken()
    const id = await transact(db, async trx => {
      const tokenId = await insertAccessToken(trx, {
        user_id: user.id,
        name: NAME,
        digest: digest(token),
        hint: mask(token),
        created_time: now(),
        expired_time: now() + TOKEN_LIFETIME_S,
      })
      await record(trx, 'access_token.create', `access_token:${tokenId}`)
      return tokenId
    })
    try {
      const { success, message, data } = await post(`${origin}/api/replay/run`, token, destination)
      if (!success) throw new CommandError(message)
      return data
    } finally {
      await transact(db, async trx => {
        await deleteAccessToken(trx, user.id, id)
        await record(trx, 'access_token.delete', `access_token:${id}`)
      })
    }
  }
}
