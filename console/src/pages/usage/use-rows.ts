import { useEffect, useRef, useState } from 'react'
import type { UsageItem } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { usePreferences } from '../../look/preferences.ts'
import { logQueryOf, type UsageFilters } from './usage-filters.ts'

const LIVE_MS = 2_000
const EMPTY_MS = 5_000
/** So far from the top somebody is reading. */
const AT_TOP_PX = 80

/** One step of the walk through the log, as the address says. */
export function useLogPage(filters: UsageFilters, isLive = false) {
  const isAdmin = useIsAdmin()
  const { pageSize } = usePreferences()
  const query = { ...logQueryOf(filters, isAdmin), cursor: filters.cursor, limit: pageSize }
  // Where there is nothing yet, the first row is waited for.
  const whileEmpty = ({ rows, next }: { rows: readonly unknown[]; next: string | null }) =>
    rows.length === 0 && next === null ? EMPTY_MS : false
  return useCall('walkLogs', { query }, { refetchMs: isLive ? LIVE_MS : whileEmpty })
}

const isReading = () => window.scrollY > AT_TOP_PX || document.activeElement?.closest('[data-rows]') !== null

/**
 * The rows in sight. While live, new ones come in by themselves only at the top of a list that nobody is reading; otherwise
 * they are counted, and wait.
 */
export function useRows(filters: UsageFilters, isPanelOpen: boolean) {
  const { live = false, cursor } = filters
  const isLive = live && cursor === undefined
  const walk = useLogPage(filters, isLive)
  const [visibleRows, show] = useState<readonly UsageItem[]>([])
  const query = JSON.stringify({ ...filters, live: undefined })
  const visibleQuery = useRef('')
  const { rows } = walk.data ?? {}
  const visibleIds = new Set(visibleRows.map(({ id }) => id))
  const fresh = isLive ? (rows ?? []).filter(({ id }) => !visibleIds.has(id)).length : 0
  useEffect(() => {
    if (!rows || walk.isPlaceholderData) return
    if (isLive && visibleQuery.current === query && (isPanelOpen || isReading())) return
    visibleQuery.current = query
    show(rows)
  }, [rows, walk.isPlaceholderData, isLive, query, isPanelOpen])
  // The answer to a new question is in sight with the same stroke, not one later.
  const isAnswered = visibleQuery.current === query || !rows || walk.isPlaceholderData
  return {
    walk,
    rows: isAnswered ? visibleRows : rows,
    fresh: isAnswered ? fresh : 0,
    isLive,
    showFresh: () => show(rows ?? []),
  }
}
