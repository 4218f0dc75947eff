import type { ImportRow } from '../../../store/engine/schema.ts'
import { findImports } from '../../../store/records/imports.ts'
import { type ImportContext, stateOf } from '../context.ts'
import type { SourceGateway } from '../inventory.ts'
import { anotherDatabase } from '../same-source.ts'
import { OWNER } from './database.ts'
import { MASTER } from './gateway.ts'

/** Rows that every database of LiteLLM has: the last is the user of its console. */
const COMMON: ReadonlySet<string> = new Set([OWNER, MASTER, 'user default_user_id'])

type Row = { readonly sourceId: string; readonly anchor: string }

function isSameRow(imported: ReadonlyMap<string, ImportRow>, { sourceId, anchor }: Row): boolean {
  const row = imported.get(sourceId)
  if (!row) return false
  const last = stateOf(row).anchor ?? ''
  return last === '' || anchor === '' ? !COMMON.has(sourceId) : last === anchor
}

/**
 * IDs of users and teams are random there, and those of keys are their hashes. So a database that has none of the
 * imported rows is another one, and everything that was imported would become disabled here.
 */
export async function mustBeSameLiteLlm(
  { db, source }: Pick<ImportContext, 'db' | 'source'>,
  gateway: Pick<SourceGateway, 'users' | 'tokens'>,
): Promise<void> {
  const users = await findImports(db, source, 'user')
  const tokens = await findImports(db, source, 'token')
  if ([...users.keys(), ...tokens.keys()].every(id => COMMON.has(id))) return
  for await (const page of gateway.users()) if (page.some(user => isSameRow(users, user))) return
  // The anchor of an imported key is our digest of it, and its ID already identifies it.
  const isSameKey = ({ sourceId }: Row) => isSameRow(tokens, { sourceId, anchor: '' })
  for await (const page of gateway.tokens()) if (page.some(isSameKey)) return
  throw anotherDatabase(source, 'it has none of the users, teams and keys that were imported')
}
