import { SYSTEM } from '../../domain/actor.ts'
import { mask } from '../../domain/text.ts'
import { TOKEN_STATUS } from '../../domain/token.ts'
import { hashedKeyName } from '../../identity/credentials.ts'
import { lockAccount, setUnlimited } from '../../store/books/accounts.ts'
import { chainKeyOf } from '../../store/books/chain-key.ts'
import { openAccounts } from '../../store/books/opening.ts'
import { statesOfRows } from '../../store/engine/row-states.ts'
import type { ImportRow } from '../../store/engine/schema.ts'
import { transact } from '../../store/engine/store.ts'
import { findImport, findImports, saveImports } from '../../store/records/imports.ts'
import {
  findTokenDigests,
  findTokensById,
  insertTokens,
  type TokenChange,
  type TokenWithAccount,
  updateToken,
} from '../../store/records/tokens.ts'
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
import type { SourceGateway, SourceToken } from './inventory.ts'

const fieldsOf = (token: SourceToken) => ({
  name: token.name,
  status: token.isEnabled ? TOKEN_STATUS.enabled : TOKEN_STATUS.disabled,
  expired_time: token.expiredTime,
  model_limits_enabled: token.models === undefined ? 0 : 1,
  models: JSON.stringify(token.models ?? []),
  allow_ips: JSON.stringify(token.allowIps),
  token_group: token.group,
  limits: token.limits,
  unlimited: token.isUnlimited ? 1 : 0,
})

type TokenFields = ReturnType<typeof fieldsOf>

const fieldsHere = (token: TokenWithAccount): TokenFields => ({
  name: token.name,
  status: token.status as TokenFields['status'],
  expired_time: token.expired_time,
  model_limits_enabled: token.model_limits_enabled as TokenFields['model_limits_enabled'],
  models: token.models,
  allow_ips: token.allow_ips,
  token_group: token.token_group,
  limits: token.limits,
  unlimited: token.unlimited as TokenFields['unlimited'],
})

/** Imports tokens with their values, so that clients keep their keys. Returns our ids by those of the source. */
export async function importTokens(
  context: ImportContext,
  gateway: Pick<SourceGateway, 'tokens' | 'isDeletion'>,
  users: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const { db, digest, keyring, isDry, notes, now, source } = context
  const imported = await findImports(db, source, 'token')
  const ids = new Map([...imported.values()].map(row => [row.source_id, row.target_id]))
  const seenIds = new Set<string>()
  const digests = new Set<string>()

  /** The text that the gateway looks a token up by. */
  const lookupOf = ({ key }: SourceToken) => digest('value' in key ? key.value : hashedKeyName(key.sha256))

  const stateFor = (token: SourceToken, nanos: number): ImportState => ({
    anchor: lookupOf(token),
    nanos,
    fields: digestFields(fieldsOf(token), digest),
  })

  const skip = (token: SourceToken, why: string) => {
    notes.count('tokens', 'skipped')
    notes.note('token', token.label, why)
  }

  /** The tokens that can be created: with an owner here, and a value that no other token has. */
  async function usable(tokens: readonly SourceToken[]): Promise<SourceToken[]> {
    const existing = await findTokenDigests(db, tokens.map(lookupOf))
    return tokens.filter(token => {
      const lookup = lookupOf(token)
      if (!users.has(token.ownerId)) skip(token, 'its user is deleted or was not carried over')
      else if (existing.has(lookup)) skip(token, 'a token with the same value exists here already')
      else if (digests.has(lookup)) skip(token, 'another token of the source has the same value')
      else return digests.add(lookup)
      return false
    })
  }

  async function create(tokens: readonly SourceToken[]): Promise<void> {
    if (tokens.length === 0) return
    notes.count('tokens', 'created', tokens.length)
    if (isDry) return
    const created = await transact(db, async trx => {
      const rows = tokens.map(token => {
        const { unlimited: _unlimited, ...fields } = fieldsOf(token)
        return {
          ...fields,
          user_id: users.get(token.ownerId) as number,
          key_digest: lookupOf(token),
          key_hint: 'value' in token.key ? mask(token.key.value) : token.key.hint,
          created_time: token.createdTime || now(),
        }
      })
      const tokenIds = await insertTokens(trx, rows, (id, index) => {
        const key = tokens[index]?.key
        // Of a hashed value only the hash is known; an empty text tells so.
        return keyring.seal(key && 'value' in key ? key.value : '', {
          table: 'tokens',
          row: id,
          field: 'key',
        })
      })
      await openAccounts(trx, {
        kind: 'token',
        accounts: tokens.map((token, index) => ({
          ownerId: tokenIds[index] as number,
          userId: users.get(token.ownerId) as number,
          isUnlimited: token.isUnlimited,
          amount: token.nanos,
        })),
        actor: SYSTEM,
        reason: openingReason(source),
        time: now(),
      })
      await saveImports(
        trx,
        tokens.map((token, index) =>
          importRow(context, 'token', {
            sourceId: token.sourceId,
            targetId: tokenIds[index] as number,
            state: stateFor(token, token.nanos),
          }),
        ),
      )
      await auditImport(trx, context, {
        action: 'import.tokens',
        target: `import:${source}`,
        after: rows.map(({ user_id, name }, index) => ({ id: tokenIds[index], user_id, name })),
        states: await statesOfRows(trx, chainKeyOf(trx), 'token', tokenIds),
      })
      return tokenIds
    })
    for (const [index, token] of tokens.entries()) ids.set(token.sourceId, created[index] as number)
  }

  function decide(token: SourceToken, row: ImportRow, here: TokenWithAccount) {
    const last = stateOf(row)
    const sides = { last, source: fieldsOf(token), here: fieldsHere(here) }
    const difference = differenceOf(sides, amountDifference(token, last, { ...here, held: 0 }), digest)
    const change: TokenChange & { unlimited?: number } = difference.change
    const state = stateFor(token, (last.nanos ?? 0) + difference.nanos)
    return { ...difference, here, change, state }
  }
  type Decision = ReturnType<typeof decide>

  /** Writes what the import changes. Undefined if the token was deleted here. */
  const write = (token: SourceToken, { source_id, target_id }: ImportRow): Promise<Decision | undefined> =>
    transact(db, async trx => {
      const account = { kind: 'token', ownerId: target_id } as const
      await lockAccount(trx, account)
      // Read again: another machine that imports the same source may have booked the difference.
      const row = await findImport(trx, { source, kind: 'token', source_id })
      const [here] = await findTokensById(trx, [target_id])
      if (!here) return undefined
      const decision = decide(token, row, here)
      const { last, changed, change, nanos, isSame, state } = decision
      const { unlimited, ...columns } = change
      await updateToken(trx, here.id, columns)
      if (unlimited !== undefined) await setUnlimited(trx, account, unlimited === 1)
      const booking = { kind: 'limit', userId: here.user_id, tokenId: here.id, nanos } as const
      const isBooked = nanos === 0 || (await bookDifference(trx, context, booking))
      const newState = isBooked ? state : { ...state, nanos: last.nanos ?? 0 }
      await saveImports(trx, [
        importRow(context, 'token', { sourceId: token.sourceId, targetId: here.id, state: newState }),
      ])
      if (!isSame)
        await auditImport(trx, context, {
          action: 'import.token',
          target: `token:${here.id}`,
          after: { fields: changed, nanos: isBooked ? nanos : 0 },
        })
      return { ...decision, isBooked }
    })

  function report(
    token: SourceToken,
    { last, here, conflicting, missing, isSame, isBooked }: Decision,
  ): void {
    const note = (message: string) => notes.note('token', token.label, message)
    if (conflicting.length > 0) note(conflictMessage(conflicting))
    if (last.isGone && token.isEnabled && here.status === TOKEN_STATUS.disabled) note(returnedMessage)
    if (missing > 0) note(missingMessage(missing))
    if (!isBooked) note('the difference of its quota exceeds the maximum of an account')
    notes.count('tokens', isSame ? 'unchanged' : 'changed')
  }

  async function update(
    token: SourceToken,
    row: ImportRow,
    here: TokenWithAccount | undefined,
  ): Promise<void> {
    if (here && stateOf(row).anchor !== lookupOf(token))
      return skip(token, 'has another value there than at the last import')
    let decision = here && decide(token, row, here)
    const isWritten = decision?.isSame && JSON.stringify(decision.state) === row.state
    if (decision && !isDry && !isWritten) decision = await write(token, row)
    if (!decision) return skip(token, 'was deleted here and stays deleted')
    report(token, decision)
    if (!isDry && !decision.isSame) await context.announce([`token:${decision.here.id}`])
  }

  /** Tokens that the source no longer has: a key that was deleted there must not stay valid here. */
  async function disableGone(): Promise<void> {
    const gone = [...imported.values()].filter(row => !seenIds.has(row.source_id) && !stateOf(row).isGone)
    for (const row of gone) {
      if (gateway.isDeletion?.('token', row.source_id) === false) continue
      const [here] = await findTokensById(db, [row.target_id])
      if (!here || here.status === TOKEN_STATUS.disabled) continue
      notes.count('tokens', 'changed')
      notes.note(
        'token',
        `token ${row.source_id}`,
        `was deleted there; the token ${here.id} becomes disabled here`,
      )
      if (isDry) continue
      await transact(db, async trx => {
        await lockAccount(trx, { kind: 'token', ownerId: here.id })
        await updateToken(trx, here.id, { status: TOKEN_STATUS.disabled })
        const state = { ...stateOf(await findImport(trx, row)), isGone: true }
        await saveImports(trx, [
          importRow(context, 'token', { sourceId: row.source_id, targetId: here.id, state }),
        ])
        await auditImport(trx, context, {
          action: 'import.token',
          target: `token:${here.id}`,
          after: { fields: ['status'] },
        })
      })
      await context.announce([`token:${here.id}`])
    }
  }

  for await (const page of gateway.tokens()) {
    const tokens = page.filter(token => !seenIds.has(token.sourceId) && seenIds.add(token.sourceId))
    await create(await usable(tokens.filter(token => !imported.has(token.sourceId))))
    const earlier = tokens.flatMap(token => {
      const row = imported.get(token.sourceId)
      return row ? [{ token, row }] : []
    })
    const here = new Map(
      (
        await findTokensById(
          db,
          earlier.map(({ row }) => row.target_id),
        )
      ).map(row => [row.id, row]),
    )
    for (const { token, row } of earlier) await update(token, row, here.get(row.target_id))
  }
  await disableGone()
  return ids
}
