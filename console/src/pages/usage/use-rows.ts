import { useEffect, useRef, useState } from 'react'
import type { UsageItem } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { usePreferences } from '../../look/preferences.ts'
import { logQueryOf, type UsageFilters } from './usage-filters.ts'

const LIVE_MS = 2_000
const EMPTY_MS = 5_000
/** Scroll distance from which the user counts as reading. */
const AT_TOP_PX = 80

/** One page of the log, at the cursor in the URL. */
export function useLogPage(filters: UsageFilters, isLive = false) {
  const isAdmin = useIsAdmin()
  const { pageSize } = usePreferences()
  const query = { ...logQueryOf(filters, isAdmin), cursor: filters.cursor, limit: pageSize }
  // An empty list polls for its first row.
  const whileEmpty = ({ rows, next }: { rows: readonly unknown[]; next: string | null }) =>
    rows.length === 0 && next === null ? EMPTY_MS : false
  return useCall('walkLogs', { query }, { refetchMs: isLive ? LIVE_MS : whileEmpty })
}

const isReading = () => window.scrollY > AT_TOP_PX || document.activeElement?.closest('[data-rows]') !== null

/**
 * The visible rows. With live updates, new rows are added only while the user is at the top of the list;
 * otherwise they are counted and shown on request.
 */
export function useRows(filters: UsageFilters, isPanelOpen: boolean) {
  const { live = false, cursor } = filters
  const isLive = live && cursor === undefined
  const logPage = useLogPage(filters, isLive)
  const [visibleRows, show] = useState<readonly UsageItem[]>([])
  const query = JSON.stringify({ ...filters, live: undefined })
  const visibleQuery = useRef('')
  const { rows } = logPage.data ?? {}
  const visibleIds = new Set(visibleRows.map(({ id }) => id))
  const fresh = isLive ? (rows ?? []).filter(({ id }) => !visibleIds.has(id)).length : 0
  useEffect(() => {
    if (!rows || logPage.isPlaceholderData) return
    if (isLive && visibleQuery.current === query && (isPanelOpen || isReading())) return
    visibleQuery.current = query
    show(rows)
  }, [rows, logPage.isPlaceholderData, isLive, query, isPanelOpen])
  // Show rows of a new query in the same render, not one later.
  const isAnswered = visibleQuery.current === query || !rows || logPage.isPlaceholderData
  return {
    logPage,
    rows: isAnswered ? visibleRows : rows,
    fresh: isAnswered ? fresh : 0,
    isLive,
    showFresh: () => show(rows ?? []),
  }
}
