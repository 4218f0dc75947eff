import { findImports } from '../../store/records/imports.ts'
import { type ImportContext, stateOf } from './context.ts'
import type { SourceGateway } from './inventory.ts'
import { SourceError } from './source/database.ts'

export const anotherDatabase = (source: string, why: string) =>
  new SourceError(
    `this is not the database that was imported as "${source}" before: ${why}. Choose a name for it: --name NAME`,
  )

/** An id stands for the same row as at the last import, or the database is another one. */
export async function mustBeSameSource(
  { db, digest, source }: ImportContext,
  gateway: SourceGateway,
): Promise<void> {
  const refuse = (label: string) => {
    throw anotherDatabase(source, `${label} is another one there`)
  }
  const users = await findImports(db, source, 'user')
  const channels = await findImports(db, source, 'channel')
  const tokens = await findImports(db, source, 'token')
  if (users.size === 0 && channels.size === 0 && tokens.size === 0) return
  for await (const page of gateway.users()) {
    for (const { sourceId, anchor } of page) {
      const row = users.get(sourceId)
      const last = row === undefined ? '' : (stateOf(row).anchor ?? '')
      // Rows from before new-api had the column have no time.
      if (last !== '' && anchor !== '' && last !== anchor) refuse(`user ${sourceId}`)
    }
    break
  }
  for await (const page of gateway.channels()) {
    for (const { sourceId, anchor } of page) {
      const row = channels.get(sourceId)
      if (row && anchor !== '' && stateOf(row).anchor !== anchor) refuse(`channel ${sourceId}`)
    }
    break
  }
  for await (const page of gateway.tokens()) {
    for (const { sourceId, key } of page) {
      const row = tokens.get(sourceId)
      if (row && 'value' in key && stateOf(row).anchor !== digest(key.value)) refuse(`token ${sourceId}`)
    }
    break
  }
}
