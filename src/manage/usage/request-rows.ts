import { setTimeout as delay } from 'node:timers/promises'
import { requestTime } from '../../domain/request-time.ts'
import type { LogStore } from '../../store/usage/log-filter.ts'
import { type LogWithNames, listLogs } from '../../store/usage/logs.ts'

const MAX_ROWS = 50
const RETRY_MS = 100
/** A row is written within a second of its response, unless the gateway is busy. */
const MAX_WAIT_MS = 1_000
/** For the id of a request that began less than a minute ago. */
const MAX_WAIT_RECENT_MS = 5_000
const RECENT_S = 60

const isRecent = (requestId: string) => (requestTime(requestId) ?? 0) > Date.now() / 1000 - RECENT_S

/** Repeats a search that finds nothing, because the request may have just ended. */
export async function untilWritten<T>(
  requestId: string,
  search: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const deadlineMs = Date.now() + (isRecent(requestId) ? MAX_WAIT_RECENT_MS : MAX_WAIT_MS)
  for (;;) {
    const result = await search()
    if (result !== undefined || Date.now() >= deadlineMs) return result
    await delay(RETRY_MS)
  }
}

/** The rows of a request, newest first; undefined if there are none. */
export async function rowsOfRequest(
  store: LogStore,
  requestId: string,
  userId: number | undefined,
): Promise<readonly [LogWithNames, ...LogWithNames[]] | undefined> {
  const { items } = await listLogs(store, { requestId, userId }, { page: 1, pageSize: MAX_ROWS })
  const [first, ...others] = items
  return first && [first, ...others]
}
