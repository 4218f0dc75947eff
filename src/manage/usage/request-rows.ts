import { setTimeout as delay } from 'node:timers/promises'
import type { LogStore } from '../../store/usage/log-filter.ts'
import { type LogWithNames, listLogs } from '../../store/usage/logs.ts'

const MAX_ROWS = 50
const RETRY_MS = 100
/** A row is written within a second of its response. */
const MAX_WAIT_MS = 1_000

/** The rows of a request, newest first; none if it is unknown. Waits for a request that has just ended. */
export async function rowsOfRequest(
  store: LogStore,
  requestId: string,
  userId: number | undefined,
): Promise<readonly LogWithNames[]> {
  const filter = { requestId, userId }
  for (let waitedMs = 0; ; waitedMs += RETRY_MS) {
    const { items } = await listLogs(store, filter, { page: 1, pageSize: MAX_ROWS })
    if (items.length > 0 || waitedMs >= MAX_WAIT_MS) return items
    await delay(RETRY_MS)
  }
}
