import { Refusal } from '../../domain/errors.ts'
import type { RouteCall } from './call.ts'
import type { Deps } from './deps.ts'

/** With a standby that is further behind, reports use the primary (docs/operating/postgresql.md: Reports on a standby). */
const MAX_LAG_S = 300
/** The header of a response from a standby: how many seconds its data may be old. */
const LAG_HEADER = 'x-sluice-replica-lag'

type Handler = (call: RouteCall) => Promise<unknown>
type AnyHandlers = Readonly<Record<string, Handler>>

/** The handlers that read many rows, and whose responses may be some seconds old. They write nothing. */
const REPORTS = [
  'logTotals',
  'logTimes',
  'logFacets',
  'exportLogs',
  'usageSeries',
  'usageTop',
  'usageTimes',
  'usageTags',
] as const

/** The seconds that the standby is behind; undefined if it cannot be used. */
async function usableLag(replica: NonNullable<Deps['replica']>): Promise<number | undefined> {
  try {
    const lagS = await replica.lagS()
    return lagS <= MAX_LAG_S ? lagS : undefined
  } catch (error) {
    replica.onFailure(error as Error)
    return undefined
  }
}

/**
 * Lets reports read from the standby, if there is one. `create` makes the handlers for a database. If the standby fails or is too
 * far behind, the primary serves the report.
 */
export function withReplica<H extends object>(deps: Deps, create: (deps: Deps) => H): H {
  const onPrimary = create(deps)
  const { replica } = deps
  if (!replica) return onPrimary
  const primaryHandlers = onPrimary as unknown as AnyHandlers
  const replicaHandlers = create({ ...deps, db: replica.db }) as unknown as AnyHandlers
  const routed = REPORTS.flatMap(name => {
    const [primary, standby] = [primaryHandlers[name], replicaHandlers[name]]
    if (!primary || !standby) return []
    const handle: Handler = async call => {
      const lagS = await usableLag(replica)
      if (lagS === undefined) return primary(call)
      call.reply.header(LAG_HEADER, String(lagS))
      try {
        return await standby(call)
      } catch (error) {
        if (error instanceof Refusal) throw error
        // For example, the standby cancels a long query that conflicts with replication.
        replica.onFailure(error as Error)
        call.reply.removeHeader(LAG_HEADER)
        return primary(call)
      }
    }
    return [[name, handle] as const]
  })
  return { ...onPrimary, ...(Object.fromEntries(routed) as unknown as Partial<H>) }
}
