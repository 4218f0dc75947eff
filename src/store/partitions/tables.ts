/** A table that PostgreSQL partitions by time (ADR 30). In SQLite it is one table. */
export type PartitionedTable = {
  readonly name: 'logs' | 'entries'
  /** The column that decides the partition of a row, in seconds. */
  readonly time: 'created_time' | 'time'
  /** Unique in each partition: a unique key of the whole table would have to contain the time. */
  readonly key: readonly string[]
  readonly hasOwnIds: boolean
}

export const LOGS: PartitionedTable = { name: 'logs', time: 'created_time', key: ['id'], hasOwnIds: true }
export const ENTRIES: PartitionedTable = {
  name: 'entries',
  time: 'time',
  key: ['chain', 'seq'],
  hasOwnIds: false,
}

/** In the order in which a settlement locks them. */
export const PARTITIONED_TABLES: readonly PartitionedTable[] = [ENTRIES, LOGS]

const DAY_S = 86_400
const WEEK_DAYS = 7
const MONTH_DAYS = 30
/** Up to this retention, a table has about a hundred partitions of a day. More make every query slower that reads all. */
const MAX_DAYS_BY_DAY = 100
const MAX_DAYS_BY_WEEK = 700

/** The width of new partitions of usage rows, in seconds. */
export function usageWidthS(retentionDays: number): number {
  if (retentionDays === 0 || retentionDays > MAX_DAYS_BY_WEEK) return MONTH_DAYS * DAY_S
  return (retentionDays <= MAX_DAYS_BY_DAY ? 1 : WEEK_DAYS) * DAY_S
}

/** Entries are never deleted. */
export const ENTRIES_WIDTH_S = MONTH_DAYS * DAY_S

/** The start of the next day, UTC. */
export const nextDay = (time: number) => (Math.floor(time / DAY_S) + 1) * DAY_S
