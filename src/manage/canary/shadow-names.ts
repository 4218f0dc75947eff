import type { Db } from '../../store/engine/store.ts'
import type { ShadowGroup } from '../../store/records/canaries.ts'
import { namesOf } from '../../store/usage/names.ts'

const dayText = (start: number) => new Date(start * 1000).toISOString().slice(0, 10)

/** The names of the rows of a report: days as dates, users and tokens by their present names. */
export async function shadowRowNames(
  db: Db,
  group: ShadowGroup,
  keys: readonly number[],
): Promise<(key: number) => string> {
  if (group === 'day') return dayText
  const names = await namesOf(db, group, keys)
  return key => names.get(key) ?? ''
}
