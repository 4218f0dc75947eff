import { sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import { detailOf, type LogStore } from './log-filter.ts'

/** The newest failures that are counted. */
const MAX_READ = 2_000

type CommonFailure = {
  readonly code: string
  readonly count: number
  /** The token, if all these requests have the same. */
  readonly token: { readonly id: number; readonly name: string } | undefined
  readonly newestTime: number
}

/** The codes of the newest failed and rejected requests since then, the most frequent first. */
export async function commonFailures(
  { db, engine }: LogStore,
  { userId, from }: { readonly userId: number | undefined; readonly from: number },
): Promise<CommonFailure[]> {
  let newest = db
    .selectFrom('logs')
    .select(['created_time', 'id', 'requests', 'token_id', 'token_name'])
    .select(sql<string>`coalesce(${detailOf.text(engine, 'error_code')}, '')`.as('code'))
    .where('type', '=', LOG_TYPE.error)
    // A literal, because the engines recognize the partial index of the rare types only by it.
    .where('type', '<>', sql.lit(LOG_TYPE.consume))
    .where('created_time', '>=', from)
  if (userId !== undefined) newest = newest.where('user_id', '=', userId)
  const rows = await newest.orderBy('created_time', 'desc').orderBy('id', 'desc').limit(MAX_READ).execute()
  return [...Map.groupBy(rows, ({ code }) => code)]
    .flatMap(([code, ofCode]): CommonFailure[] => {
      const [first] = ofCode
      if (code === '' || !first) return []
      const isOfOne = first.token_id !== 0 && ofCode.every(({ token_id }) => token_id === first.token_id)
      return [
        {
          code,
          count: ofCode.reduce((sum, { requests }) => sum + requests, 0),
          token: isOfOne ? { id: first.token_id, name: first.token_name } : undefined,
          newestTime: first.created_time,
        },
      ]
    })
    .sort((a, b) => b.count - a.count)
}
