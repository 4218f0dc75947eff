import { actorLabel } from '../../domain/actor.ts'
import { bodyModeOf } from '../../domain/body-log.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import { mergeLimits, parseLimits } from '../../domain/limits.ts'
import { nanosOf, unitsLeft, unitsUsed } from '../../domain/money.ts'
import { mask } from '../../domain/text.ts'
import { TOKEN_STATUS, tokenStatus } from '../../domain/token.ts'
import { isAddressOrRange } from '../../http/address.ts'
import { isApiKey, newApiKey } from '../../identity/credentials.ts'
import { findAccount, lockAccount, openAccount, post, setUnlimited } from '../../store/books/accounts.ts'
import type { Trx } from '../../store/engine/store.ts'
import {
  countTokens,
  deleteTokens,
  findToken,
  findTokens,
  insertToken,
  listTokens,
  type TokenChange,
  type TokenWithAccount,
  updateToken,
} from '../../store/records/tokens.ts'
import type { tokenContract } from '../contract/tokens.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'
import { presentPage } from '../server/page.ts'
import { readExpiry } from './expiry.ts'

/** Bounds the tokens of one user. */
const MAX_TOKENS = 1_000_000
/** The ellipsis in a masked value, as the API writes it and as people type it. */
const MIDDLE = /…|\.{3}/

const keyPlace = (id: number) => ({ table: 'tokens', row: id, field: 'key' })

/** Addresses and CIDRs, as an array or as text separated by commas or line breaks. */
function readAddresses(input: readonly string[] | string): string {
  const parts = typeof input === 'string' ? input.split(/[\s,]+/) : input
  const addresses = parts.map(part => part.trim()).filter(part => part !== '')
  for (const address of addresses) {
    if (!isAddressOrRange(address))
      throw invalidField(
        'allow_ips',
        `must contain IP addresses and CIDRs only; "${address.slice(0, 60)}" is neither`,
      )
  }
  return JSON.stringify([...new Set(addresses)])
}

/** The tokens of the caller (docs/reference/management-api.md: Tokens). */
export function createTokenHandlers({
  db,
  now,
  keyring,
  digest,
  ledger,
}: Deps): Handlers<typeof tokenContract> {
  const presentToken = (row: TokenWithAccount, wholeKey?: string) => ({
    id: row.id,
    user_id: row.user_id,
    name: row.name,
    key: wholeKey ?? row.key_hint,
    status: tokenStatus(row, now()),
    created_time: row.created_time,
    accessed_time: row.accessed_time,
    expired_time: row.expired_time,
    remain_quota: unitsLeft(Math.max(0, row.credited - row.posted)),
    used_quota: unitsUsed(row.posted),
    held_quota: unitsUsed(row.held),
    unlimited_quota: row.unlimited === 1,
    model_limits_enabled: row.model_limits_enabled === 1,
    models: JSON.parse(row.models) as string[],
    model_limits: (JSON.parse(row.models) as string[]).join(','),
    allow_ips: JSON.parse(row.allow_ips) as string[],
    group: row.token_group,
    limits: parseLimits(row.limits),
    log_bodies: bodyModeOf(row.log_bodies),
  })

  async function mustFind(source: Trx | typeof db, userId: number, id: number) {
    const row = await findToken(source, userId, id)
    if (!row) throw notFound('token')
    return row
  }

  /** A token's quota is a limit, not money: setting what remains adds an entry with the difference. */
  async function setRemaining(
    trx: Trx,
    token: { id: number; userId: number },
    units: number,
    reason: string,
  ) {
    const account = await findAccount(trx, { kind: 'token', ownerId: token.id })
    const amount = nanosOf(units) - (account.credited - account.posted)
    if (amount === 0) return
    const posted = await post(trx, {
      kind: 'limit',
      userId: token.userId,
      tokenId: token.id,
      amount,
      actor: actorLabel({ id: token.userId }),
      reason,
      time: now(),
    })
    if (!posted) throw invalidField('remain_quota', 'exceeds the maximum of an account')
  }

  const reveal = (row: TokenWithAccount) => {
    const key = keyring.open(row.key_sealed, keyPlace(row.id))
    if (key === '')
      throw new Refusal(
        'conflict',
        'The value of this token is not known, because only its hash was imported. It stays valid; create a new token to see a value.',
      )
    return key
  }

  return {
    listTokens: async ({ actor, query }) =>
      presentPage(await listTokens(db, actor.id, {}, query.paging), query.paging, row => presentToken(row)),

    searchTokens: async ({ actor, query }) => {
      const { keyword, token, paging } = query
      const value = token && (isApiKey(token) ? token : `sk-${token}`)
      const [head = '', tail] = value?.split(MIDDLE) ?? []
      const filter = {
        keyword: keyword?.replaceAll('%', ''),
        ...(tail === undefined ? { digest: value && digest(value) } : { hint: { head, tail } }),
      }
      return presentPage(await listTokens(db, actor.id, filter, paging), paging, row => presentToken(row))
    },

    getToken: async ({ actor, params, reply }) => {
      const { id } = await mustFind(db, actor.id, params.id)
      await markIfStale(reply, ledger.catchUp({ kind: 'token', ownerId: id }))
      return presentToken(await mustFind(db, actor.id, id))
    },

    createToken: async ({ actor, body, change }) =>
      change(async ({ trx, audit }) => {
        if ((await countTokens(trx, actor.id)) >= MAX_TOKENS)
          throw new Refusal('conflict', `A user may have at most ${MAX_TOKENS} tokens. Delete some first.`)
        const key = newApiKey()
        const unlimited = body.unlimited_quota ?? false
        const id = await insertToken(trx, {
          user_id: actor.id,
          name: body.name,
          key_digest: digest(key),
          key_sealed: '',
          key_hint: mask(key),
          status: TOKEN_STATUS.enabled,
          created_time: now(),
          expired_time: readExpiry(body.expired_time, now()),
          model_limits_enabled: body.model_limits_enabled ? 1 : 0,
          models: JSON.stringify(changedModels(body, []) ?? []),
          allow_ips: body.allow_ips === undefined ? '[]' : readAddresses(body.allow_ips),
          token_group: body.group || 'default',
          limits: mergeLimits(body.limits ?? {}),
          log_bodies: body.log_bodies ?? 'none',
        })
        // The encryption is bound to the row id, so the row is inserted first.
        await updateToken(trx, id, { key_sealed: keyring.seal(key, keyPlace(id)) })
        await openAccount(trx, { kind: 'token', ownerId: id }, unlimited)
        await setRemaining(trx, { id, userId: actor.id }, body.remain_quota ?? 0, 'token created')
        const row = await mustFind(trx, actor.id, id)
        audit({ action: 'token.create', target: `token:${id}`, after: presentToken(row) })
        return presentToken(row, key)
      }),

    updateToken: async ({ actor, query, body: update, change }) => {
      // Only owners may make every node write the account.
      await mustFind(db, actor.id, update.id)
      await ledger.flushAndReturn({ kind: 'token', ownerId: update.id })
      return change(async ({ trx, audit }) => {
        const body: Partial<typeof update> & { id: number } = query.status_only
          ? { id: update.id, status: update.status }
          : update
        const account = { kind: 'token', ownerId: body.id } as const
        await lockAccount(trx, account)
        const before = await mustFind(trx, actor.id, body.id)
        const fields: TokenChange = {}
        if (body.name !== undefined) fields.name = body.name
        // 3 and 4 are derived states: a client that sends the whole object back does not set them.
        if (body.status === 1 || body.status === 2) fields.status = body.status
        const sentBack = body.expired_time === before.expired_time
        if (body.expired_time !== undefined && !sentBack)
          fields.expired_time = readExpiry(body.expired_time, now())
        if (body.model_limits_enabled !== undefined)
          fields.model_limits_enabled = body.model_limits_enabled ? 1 : 0
        const models = changedModels(body, JSON.parse(before.models))
        if (models !== undefined) fields.models = JSON.stringify(models)
        if (body.allow_ips !== undefined) fields.allow_ips = readAddresses(body.allow_ips)
        if (body.group !== undefined) fields.token_group = body.group || 'default'
        if (body.limits !== undefined) fields.limits = mergeLimits(body.limits, before.limits)
        if (body.log_bodies !== undefined) fields.log_bodies = body.log_bodies
        await updateToken(trx, before.id, fields)

        const owner = { id: before.id, userId: actor.id }
        const remaining = before.credited - before.posted
        if (body.remain_quota !== undefined && body.remain_quota !== unitsLeft(Math.max(0, remaining)))
          await setRemaining(trx, owner, body.remain_quota, 'token updated')
        else if (body.unlimited_quota === false && remaining < 0)
          // An unlimited token may have spent more than its quota. The excess is not deducted when it becomes limited.
          await setRemaining(trx, owner, 0, 'token limited again')
        if (body.unlimited_quota !== undefined) await setUnlimited(trx, account, body.unlimited_quota)

        const after = await mustFind(trx, actor.id, before.id)
        audit({
          action: 'token.update',
          target: `token:${before.id}`,
          before: presentToken(before),
          after: presentToken(after),
        })
        return presentToken(after)
      })
    },

    deleteToken: async ({ actor, params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFind(trx, actor.id, params.id)
        await deleteTokens(trx, actor.id, [row.id])
        audit({ action: 'token.delete', target: `token:${row.id}`, before: presentToken(row) })
        return undefined
      }),

    deleteTokens: async ({ actor, body, change }) =>
      change(async ({ trx, audit }) => {
        const rows = await findTokens(trx, actor.id, body.ids)
        const count = await deleteTokens(trx, actor.id, body.ids)
        for (const row of rows)
          audit({ action: 'token.delete', target: `token:${row.id}`, before: presentToken(row) })
        return count
      }),

    revealToken: async ({ actor, params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFind(trx, actor.id, params.id)
        audit({ action: 'token.reveal', target: `token:${row.id}` })
        return { key: reveal(row) }
      }),

    revealTokens: async ({ actor, body, change }) =>
      change(async ({ trx, audit }) => {
        const rows = await findTokens(trx, actor.id, body.ids)
        for (const row of rows) audit({ action: 'token.reveal', target: `token:${row.id}` })
        return { keys: Object.fromEntries(rows.map(row => [row.id, reveal(row)])) }
      }),
  }
}

type ModelsInput = { readonly models?: string[] | undefined; readonly model_limits?: string[] | undefined }

/** `models` and `model_limits` are the same field. If a client sends both, the changed one is used. */
function changedModels({ models, model_limits }: ModelsInput, current: string[]): string[] | undefined {
  if (models === undefined || model_limits === undefined) return models ?? model_limits
  return models.join(',') === current.join(',') ? model_limits : models
}
