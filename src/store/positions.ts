import type { Db } from './store.ts'

/** How far the journal of every node is in the store. */
export async function appliedPositions(db: Db): Promise<[node: string, lsn: number][]> {
  const nodes = await db.selectFrom('nodes').select(['id', 'applied_lsn']).execute()
  return nodes.map(({ id, applied_lsn }) => [id, applied_lsn])
}
