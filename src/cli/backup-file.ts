import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../host/sqlite-open.ts'

/**
 * A backup is one SQLite file: a snapshot of the store's tables, the journal records that are not yet in them, and
 * information about the backup. The tables of the backup itself begin with `backup_`.
 */
export const FORMAT = '1'

export const BACKUP_SCHEMA = `
  CREATE TABLE backup_info (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
  CREATE TABLE backup_nodes (node TEXT PRIMARY KEY, first INTEGER NOT NULL) STRICT;
  CREATE TABLE backup_records (
    node TEXT NOT NULL, lsn INTEGER NOT NULL, body TEXT NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (node, lsn)
  ) STRICT, WITHOUT ROWID`

export const DROP_BACKUP_SCHEMA = 'DROP TABLE backup_info; DROP TABLE backup_nodes; DROP TABLE backup_records'

const BUSY_TIMEOUT_MS = 10_000

export const openFile = (path: string, { readOnly = false } = {}) =>
  openDatabase(path, { readOnly, timeoutMs: BUSY_TIMEOUT_MS })

/** The journal directories of all nodes of a data directory. */
export function nodeDirectories(dataDir: string): { node: string; dir: string }[] {
  const nodes = join(dataDir, 'nodes')
  const names = statSync(nodes, { throwIfNoEntry: false }) ? readdirSync(nodes).sort() : []
  return names
    .map(node => ({ node, dir: join(nodes, node) }))
    .filter(({ dir }) => statSync(dir).isDirectory())
}
