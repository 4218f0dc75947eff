import { useEffect, useRef, useState } from 'react'
import type { LogRow } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { usePreferences } from '../../look/preferences.ts'
import { questionOf, type UsageFilters } from './usage-filters.ts'

const LIVE_MS = 2_000
const EMPTY_MS = 5_000
/** So far from the top somebody is reading. */
const AT_TOP_PX = 80

/** One step of the walk through the log, as the address says. */
export function useWalk(filters: UsageFilters, isLive = false) {
  const isAdmin = useIsAdmin()
  const { pageSize } = usePreferences()
  const query = { ...questionOf(filters, isAdmin), cursor: filters.cursor, limit: pageSize }
  // Where there is nothing yet, the first row is waited for.
  const whileEmpty = ({ rows, next }: { rows: readonly unknown[]; next: string | null }) =>
    rows.length === 0 && next === null ? EMPTY_MS : false
  return useCall('walkLogs', { query }, { everyMs: isLive ? LIVE_MS : whileEmpty })
}

const isReading = () => window.scrollY > AT_TOP_PX || document.activeElement?.closest('[data-rows]') !== null

/**
 * The rows in sight. While live, new ones come in by themselves only at the top of a list that nobody is reading; otherwise
 * they are counted, and wait.
 */
export function useRows(filters: UsageFilters, isPanelOpen: boolean) {
  const { live = false, cursor } = filters
  const isLive = live && cursor === undefined
  const walk = useWalk(filters, isLive)
  const [shown, show] = useState<readonly LogRow[]>([])
  const question = JSON.stringify({ ...filters, live: undefined })
  const asked = useRef('')
  const { rows } = walk.data ?? {}
  const known = new Set(shown.map(({ id }) => id))
  const fresh = isLive ? (rows ?? []).filter(({ id }) => !known.has(id)).length : 0
  useEffect(() => {
    if (!rows || walk.isPlaceholderData) return
    if (isLive && asked.current === question && (isPanelOpen || isReading())) return
    asked.current = question
    show(rows)
  }, [rows, walk.isPlaceholderData, isLive, question, isPanelOpen])
  // The answer to a new question is in sight with the same stroke, not one later.
  const isAnswered = asked.current === question || !rows || walk.isPlaceholderData
  return {
    walk,
    rows: isAnswered ? shown : rows,
    fresh: isAnswered ? fresh : 0,
    isLive,
    showFresh: () => show(rows ?? []),
  }
}
